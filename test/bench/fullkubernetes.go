package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/store"
	"mysql-broker/test/kubernetes/cluster"
)

// serversVar says how many servers there are in the section full-kubernetes.
const (
	serversVar     = "KUBERNETES_SERVERS"
	defaultServers = 1000
	fleetNamespace = "servers"
	fleetAccount   = "broker_admin" // as fleet's servers have it
	fleetCreators  = 8

	// wholeServers is how many servers have all objects. Of the others, there is only what brokers list: Secrets and pods.
	// The controllers would need an hour for the rest.
	wholeServers = 1000
)

// measureFullKubernetes looks at a broker with many dedicated servers in the control plane of a cluster that has no
// node. The objects are those of the launcher. One mysqld plays all servers in the rounds that measure storage. The
// Secrets say that the servers are suspended, so that nobody renews their certificates.
func measureFullKubernetes(ctx context.Context, b *bench) (err error) {
	programs := os.Getenv(cluster.ProgramsVar)
	if programs == "" {
		fmt.Fprintf(os.Stderr, "the section full-kubernetes needs $%s\n", cluster.ProgramsVar)
		return nil
	}
	n, err := strconv.Atoi(cmp.Or(os.Getenv(serversVar), strconv.Itoa(defaultServers)))
	if err != nil {
		return fmt.Errorf("%s: %w", serversVar, err)
	}
	dir := filepath.Join(b.dir, "control-plane")
	c, err := cluster.Start(ctx, cluster.Config{Programs: programs, Dir: dir,
		Logf: func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }})
	if err != nil {
		return err
	}
	defer c.Stop()
	f := &fullFleet{bench: b, kubernetesNamespace: &kubernetesNamespace{api: c, name: fleetNamespace},
		server: b.servers[0], password: rand.Text()}
	if err := f.make(ctx); err != nil {
		return err
	}
	if f.environment, err = b.environment(ctx, f.server); err != nil {
		return err
	}
	delete(f.environment, "MYSQL_SERVERS")
	for name, value := range map[string]string{"LAUNCHER": "kubernetes", "LAUNCHER_NAMESPACE": f.name,
		"LAUNCHER_KUBECONFIG": c.Kubeconfig, "LAUNCHER_IMAGES": "mysql-9.7=mysql@sha256:" + strings.Repeat("0", 64)} {
		f.environment[name] = value
	}
	if err := f.createAccount(ctx); err != nil {
		return fmt.Errorf("the account on the server that plays all: %w", err)
	}
	for _, of := range []int{0, n} { // without servers, for comparison
		if err := f.fill(ctx, of); err != nil {
			return fmt.Errorf("make %d servers: %w", of, err)
		}
		if err := f.measure(ctx, of); err != nil {
			return fmt.Errorf("%d servers: %w", of, err)
		}
	}
	return nil
}

// fullFleet is a namespace and a PostgreSQL database with many servers.
type fullFleet struct {
	*kubernetesNamespace
	bench       *bench
	server      server
	password    string // of fleetAccount
	environment map[string]string
}

func (f *fullFleet) createAccount(ctx context.Context) error {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net = f.server.User, f.server.Password, "tcp"
	cfg.Addr, cfg.TLSConfig = fmt.Sprintf("%s:%d", f.server.Host, f.server.Port), "skip-verify"
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for _, statement := range []string{
		fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", fleetAccount, f.password),
		fmt.Sprintf("GRANT ALL PRIVILEGES ON *.* TO '%s'@'%%'", fleetAccount),
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// fill makes the objects of n servers, and records their instances.
func (f *fullFleet) fill(ctx context.Context, n int) error {
	credentials, err := kubernetes.ReadKubeconfig(f.api.Kubeconfig)
	if err != nil {
		return err
	}
	l, err := kubernetes.New(kubernetes.Config{Credentials: credentials, Namespace: f.name,
		Images: []kubernetes.Image{{Flavour: "mysql", Version: "9.7", Name: "mysql:9.7"}}, User: 999})
	if err != nil {
		return err
	}
	defer l.Close()
	keys, err := store.ParseKeyset(f.environment["ENCRYPTION_KEYSET"])
	if err != nil {
		return err
	}
	if _, err := store.Migrate(ctx, f.environment["DATABASE_URL"]); err != nil {
		return err
	}
	s, err := store.Open(ctx, f.environment["DATABASE_URL"], keys)
	if err != nil {
		return err
	}
	defer s.Close()
	since := time.Now()
	var made atomic.Int64
	more := func(n int, create func(i int) error) error {
		begun := int(made.Load())
		return each(n, fleetCreators, func(i int) error {
			if err := errors.Join(create(begun+i), f.record(ctx, s, begun+i)); err != nil {
				return err
			}
			if done := made.Add(1); done%500 == 0 {
				fmt.Fprintf(os.Stderr, "%d servers after %v\n", done, time.Since(since).Round(time.Second))
			}
			return ctx.Err()
		})
	}
	if err := more(min(n, wholeServers), func(i int) error { return f.createServer(ctx, l, i) }); err != nil {
		return err
	}
	if n > wholeServers {
		copied, err := f.template(ctx)
		if err != nil {
			return err
		}
		if err := more(n-wholeServers, func(i int) error { return f.copyServer(ctx, copied, i) }); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, f.environment["DATABASE_URL"])
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	endpoint := store.Endpoint{Host: f.server.Host, Port: f.server.Port, CACertificate: []byte(f.server.CA)}
	if _, err := conn.Exec(ctx, "UPDATE instance SET state = 'ready', endpoint = $1", endpoint); err != nil {
		return err
	}
	for _, statement := range []string{"UPDATE task SET state = 'succeeded', finished_at = now()",
		"DELETE FROM storage_measurement", // by the broker that had no servers
		"DELETE FROM leader_lease",        // else the next round waits until half a minute after the one before
		"VACUUM ANALYZE"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

func serverID(i int) string { return fmt.Sprintf("d_%d", i+1) }

// createServer makes the objects of a server, as a broker does before there is a pod.
func (f *fullFleet) createServer(ctx context.Context, l *kubernetes.Launcher, i int) error {
	_, err := l.Launch(ctx, launcher.Spec{ID: serverID(i), MemoryMB: 256, StorageMB: 1024, AdminUser: fleetAccount,
		AdminPassword: f.password}, func(string) {})
	if e, ok := errors.AsType[*launcher.Error](err); !ok || e.Action != launcher.Wait {
		return fmt.Errorf("launch: %w", err)
	}
	_, err = f.call(ctx, http.MethodPatch, "/secrets/"+strings.ReplaceAll(serverID(i), "_", "-"), object{"metadata": object{
		"annotations": object{"mysql-broker/state": `{"phase": "suspended"}`}}}, nil)
	return err
}

// template is a server's objects that brokers list, by the paths of their kinds.
type template map[string]object

// template reads those of the first server.
func (f *fullFleet) template(ctx context.Context) (template, error) {
	all := template{"/secrets": {}, "/pods": {}}
	for path, name := range map[string]string{"/secrets": "d-1", "/pods": "d-1-0"} {
		if err := until(ctx, name+" is there", func() (bool, error) {
			found := object{}
			ok, err := f.call(ctx, http.MethodGet, path+"/"+name, nil, &found)
			all[path] = found
			return ok, err
		}); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// copyServer makes the objects of another server.
func (f *fullFleet) copyServer(ctx context.Context, of template, i int) error {
	for path, it := range of {
		was := it["metadata"].(object)
		labels := maps.Clone(was["labels"].(object))
		labels["mysql-broker/server"] = serverID(i)
		name := strings.Replace(was["name"].(string), "d-1", fmt.Sprintf("d-%d", i+1), 1)
		copied := maps.Clone(it)
		delete(copied, "status")
		copied["metadata"] = object{"name": name, "labels": labels, "annotations": was["annotations"]}
		if _, err := f.call(ctx, http.MethodPost, path, copied, nil); err != nil {
			return err
		}
	}
	return nil
}

func (f *fullFleet) record(ctx context.Context, s *store.Store, i int) error {
	serviceID, planID, err := f.bench.plan(dedicatedPlan)
	if err != nil {
		return err
	}
	instance := store.Instance{ID: uuid.NewString(), ServiceID: serviceID, PlanID: planID, OrganizationGUID: "org",
		SpaceGUID: "space", Parameters: json.RawMessage("{}"), Context: json.RawMessage("{}"), MaintenanceVersion: "1.0.0",
		Location: store.DedicatedLocation("kubernetes", serverID(i)), Database: fmt.Sprintf("db_%d", i+1),
		AdminPassword: f.password}
	_, _, err = s.RecordProvision(ctx, store.Asked{At: time.Now()}, instance, store.NewTask{InstanceID: instance.ID, Kind: store.Provision,
		PlanID: planID, Request: json.RawMessage("{}")}, store.Room{})
	return err
}

// measure starts a broker, and looks at its first comparison and its first round of measuring storage.
func (f *fullFleet) measure(ctx context.Context, n int) (err error) {
	r, err := f.bench.startBroker(ctx, f.environment)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.stop(context.WithoutCancel(ctx))) }()
	since := time.Now()
	seen, err := r.watchExamination(ctx)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, f.environment["DATABASE_URL"])
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var round time.Duration
	if err := until(ctx, "storage is measured", func() (bool, error) {
		round = time.Since(since)
		var done bool
		err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM storage_measurement WHERE server = '')").Scan(&done)
		return done, err
	}); err != nil {
		return err
	}
	c, err := newClient(ctx, r.addr)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	since = time.Now()
	if _, _, err := c.do("GET", "/metrics", ""); err != nil {
		return err
	}
	scrape := time.Since(since)
	memory, err := residentMB(r.pid)
	if err != nil {
		return err
	}
	allocated, err := statusMB(r.pid, "RssAnon")
	if err != nil {
		return err
	}
	for _, row := range []Row{
		{What: "start until ready", Unit: "ms", Broker: spreadOf([]float64{milliseconds(r.started)})},
		{What: "comparison by the doctor", Unit: "ms", Broker: spreadOf([]float64{milliseconds(seen.took)})},
		{What: "start until storage is measured once", Unit: "ms", Broker: spreadOf([]float64{milliseconds(round)})},
		{What: "scrape of /metrics", Unit: "ms", Broker: spreadOf([]float64{milliseconds(scrape)})},
		{What: "memory after a comparison and a measurement", Unit: "MB", Broker: spreadOf([]float64{max(memory, seen.memory)}),
			Goal: &Goal{AtMost: 32, Unit: "MB"}},
		{What: "of that without the program's file, at the end", Unit: "MB", Broker: spreadOf([]float64{allocated})},
	} {
		row.What, row.Flavour = fmt.Sprintf("%s, %d servers in Kubernetes", row.What, n), f.server.Flavour
		f.bench.report.add(row)
	}
	return nil
}

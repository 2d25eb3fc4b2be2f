package kubernetes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes"
	"mysql-broker/provisioner/launcher/launchertest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// onNodes runs fn in parallel with an image of the newest MySQL. With a real node there is one node only, and members
// need three.
func onNodes(t *testing.T, fn func(t *testing.T, image kubernetes.Image, node *cluster.Node)) {
	t.Helper()
	t.Parallel()
	shared.Start(t)
	node, played := shared.Node.(*cluster.Node)
	if !played {
		t.Skip("it needs three nodes")
	}
	i := slices.IndexFunc(cluster.Binaries(), func(b mysqld.Binary) bool { return b.Flavour == mysqld.MySQL })
	if i < 0 {
		t.Skip("no program of MySQL is installed")
	}
	b := cluster.Binaries()[i]
	fn(t, kubernetes.Image{Flavour: b.Flavour, Version: b.Version, Name: cluster.ImageName(b)}, node)
}

// A group of three members loads certificates of another CA. It accepts writes again, and the primary runs the events,
// after its primary or all members are killed, or pod and volume of the primary deleted. While it is suspended nothing
// of it runs. No acknowledged row is lost, and nothing is left of it in the end.
func TestGroup(t *testing.T) { onNodes(t, testGroup) }

func testGroup(t *testing.T, image kubernetes.Image, node *cluster.Node) {
	g := newGroup(t, image, node)
	g.spread()
	g.renew()
	g.write()
	g.during("the primary is killed", func(primary int) { g.kill(primary) }, 0)
	g.during("pod and volume of the primary are deleted", func(primary int) { g.loseVolume(primary) }, 0)
	g.during("all members are killed", func(primary int) {
		g.hurry()
		for n := range 3 {
			g.kill((primary + n) % 3)
		}
	}, 0, 1, 2)
	g.stop()
	g.suspend()
	began := time.Now()
	g.spec.Members = 0 // which its plan may have lost
	g.e, _ = launch(t, g.l, g.spec)
	t.Logf("resumed after %.1f s", time.Since(began).Seconds())
	g.whole("resumed")
	g.compare("suspended and resumed")
	g.destroy()
}

// Groups that the launcher does not run are refused.
func TestGroupRefused(t *testing.T) { onNodes(t, testGroupRefused) }

func testGroupRefused(t *testing.T, image kubernetes.Image, _ *cluster.Node) {
	p := newPlace(t, image)
	l := p.open(t).(*kubernetes.Launcher)
	if err := l.Groups(image.Flavour, ""); err != nil {
		t.Error(err)
	}
	for _, other := range []kubernetes.Image{{Flavour: mysqld.MariaDB, Version: "11.8.9", Name: "mariadb:11.8"},
		{Flavour: mysqld.MySQL, Version: "8.0.41", Name: "mysql:8.0.41"}} {
		q := *p
		q.cfg.Images = []kubernetes.Image{other}
		l := q.open(t).(*kubernetes.Launcher)
		if err := l.Groups(other.Flavour, ""); err == nil {
			t.Errorf("groups of %s %s are not refused", other.Flavour, other.Version)
		}
		spec := newSpec()
		spec.Members = 3
		if _, err := l.Launch(t.Context(), spec, func(string) {}); !givesUp(err) {
			t.Errorf("launch of a group of %s: %v", other.Flavour, err)
		}
	}
	p.cfg.Service = kubernetes.LoadBalancer
	if err := p.open(t).(*kubernetes.Launcher).Groups(image.Flavour, ""); err == nil {
		t.Error("groups behind load balancers are not refused")
	}
}

func givesUp(err error) bool {
	e, ok := errors.AsType[*launcher.Error](err)
	return ok && e.Action == launcher.GiveUp
}

// groupClient writes to a group as an application does, at the address that leads to the primary.
type groupClient struct {
	t *testing.T
	l *kubernetes.Launcher

	looks *kubernetes.Launcher // supervises nothing, so it looks at members whenever it is asked

	p    *place
	spec launcher.Spec
	e    launcher.Endpoint

	end  context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	next    int
	acked   map[int]bool
	last    time.Time
	longest time.Duration
}

const appPassword = "an-application-1"

// newGroup launches a group whose members have a node each. Two nodes do not suffice.
func newGroup(t *testing.T, image kubernetes.Image, node *cluster.Node) *groupClient {
	t.Helper()
	p := newPlace(t, image)
	addNodes := func(count int) {
		t.Helper()
		if err := node.AddNodes(t.Context(), p.Name, count); err != nil {
			t.Fatal(err)
		}
	}
	addNodes(1)
	looks := p.open(t).(*kubernetes.Launcher)
	p.cfg.Supervise = true
	l := p.open(t).(*kubernetes.Launcher)
	spec := newSpec()
	spec.MemoryMB, spec.Members = 512, 3
	g := &groupClient{t: t, p: p, spec: spec}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s", p.log)
			g.explain()
		}
	})
	awaitSentence(t, "a launch on two nodes", "Waiting for a node of its own", launching(l, spec))
	hasty := *p
	hasty.cfg.PlaceTimeout = 1
	if _, _, err := finish(t, launching(hasty.open(t), spec)); !errors.Is(err, launcher.ErrNoRoom) {
		t.Errorf("a launch on two nodes: %v, want ErrNoRoom", err)
	}
	addNodes(2)
	began := time.Now()
	e, sentences := launch(t, l, spec)
	t.Logf("launched after %.1f s: %q", time.Since(began).Seconds(), slices.Compact(sentences))
	g.l, g.looks, g.e, g.acked, g.last = l, looks, e, map[int]bool{}, time.Now()
	if len(e.Members) != 3 || slices.Contains(e.Members, net.JoinHostPort(e.Host, strconv.Itoa(e.Port))) {
		t.Errorf("the group is at %s:%d, and its members at %v", e.Host, e.Port, e.Members)
	}
	g.admin(e.AdminAddress(), func(ctx context.Context, db *sql.DB) error {
		for _, statement := range []string{"CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY)",
			"CREATE TABLE app.tick (n INT AUTO_INCREMENT PRIMARY KEY, server CHAR(36) NOT NULL, at DATETIME(3) NOT NULL)",
			"CREATE USER app@'%' IDENTIFIED BY '" + appPassword + "'", "GRANT ALL ON app.* TO app@'%'"} {
			if _, err := db.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return nil
	})
	app := g.open(net.JoinHostPort(e.Host, strconv.Itoa(e.Port)), "app", appPassword)
	defer app.Close()
	// Another member than that of the administrator may respond, which does not know the account yet.
	await(t, "the application creates an event", func() bool {
		_, err := app.ExecContext(t.Context(), "CREATE EVENT IF NOT EXISTS app.ticks ON SCHEDULE EVERY 1 SECOND DO "+
			"INSERT INTO app.tick (server, at) VALUES (@@server_uuid, NOW(3))")
		return err == nil
	})
	return g
}

// during does something to a group, and expects that members get other containers, counted from the primary, that all
// come back, and that no row is lost.
func (g *groupClient) during(what string, do func(primary int), changed ...int) {
	g.t.Helper()
	primary, began := g.primary(), time.Now()
	var before [3]string
	for member := range before {
		before[member] = g.container(member)
	}
	do(primary)
	for _, member := range changed {
		await(g.t, what+": there is another container", func() bool {
			return g.container((primary+member)%3) != before[(primary+member)%3]
		})
	}
	g.whole(what)
	g.ticks(what)
	g.t.Logf("%s: no row for %.1f s, and all members online after %.1f s", what, g.takePause().Seconds(),
		time.Since(began).Seconds())
	g.compare(what)
}

// explain logs what each member says of itself.
func (g *groupClient) explain() {
	for _, address := range g.e.Members {
		db := g.open(address, g.spec.AdminUser, g.spec.AdminPassword)
		testdrive.LogMember(g.t, address, db)
		db.Close()
	}
}

// destroy expects that nothing is left.
func (g *groupClient) destroy() {
	g.t.Helper()
	if err := destroy(g.t, g.l, g.spec.ID); err != nil {
		g.t.Fatal(err)
	}
	for _, kind := range []string{g.p.Path("secrets"), g.p.Path("services"), g.p.Path("persistentvolumeclaims"),
		g.p.Path("pods"), "/apis/apps/v1/namespaces/" + g.p.Name + "/statefulsets",
		"/apis/policy/v1/namespaces/" + g.p.Name + "/poddisruptionbudgets"} {
		var left json.RawMessage
		g.p.Do(g.t, http.MethodGet, kind, nil, &left)
		if strings.Contains(string(left), objectName(g.spec)) {
			g.t.Errorf("left of the group: %s", left)
		}
	}
	if left, err := g.l.Members(g.t.Context(), g.spec.ID); err != nil || len(left) > 0 {
		g.t.Errorf("members of a group that was destroyed: %v, %v", left, err)
	}
}

func (g *groupClient) open(address, user, password string) *sql.DB {
	g.t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(g.e.CACertificate)
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.Logger = "tcp", address, user, password, &mysql.NopLogger{}
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: g.e.Host, MinVersion: tls.VersionTLS12}
	cfg.Timeout, cfg.ReadTimeout, cfg.InterpolateParams = 2*time.Second, 10*time.Second, true
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		g.t.Fatal(err)
	}
	return sql.OpenDB(connector)
}

func (g *groupClient) admin(address string, fn func(context.Context, *sql.DB) error) {
	g.t.Helper()
	db := g.open(address, g.spec.AdminUser, g.spec.AdminPassword)
	defer db.Close()
	if err := fn(g.t.Context(), db); err != nil {
		g.t.Fatal(err)
	}
}

// write inserts rows until stop is called.
func (g *groupClient) write() {
	ctx, cancel := context.WithCancel(g.t.Context())
	g.end = cancel
	g.t.Cleanup(g.stop)
	db := g.open(net.JoinHostPort(g.e.Host, strconv.Itoa(g.e.Port)), "app", appPassword)
	for range 2 {
		g.done.Go(func() {
			for ctx.Err() == nil {
				pause := 20 * time.Millisecond // members that join have to keep up on a busy machine
				if !g.insert(ctx, db) {
					pause = 50 * time.Millisecond
				}
				select {
				case <-ctx.Done():
				case <-time.After(pause):
				}
			}
		})
	}
	g.done.Go(func() { <-ctx.Done(); _ = db.Close() })
}

// hurry has more applications insert rows, until one cannot. So the primary is about to commit some when it dies.
func (g *groupClient) hurry() {
	g.t.Helper()
	db := g.open(net.JoinHostPort(g.e.Host, strconv.Itoa(g.e.Port)), "app", appPassword)
	g.t.Cleanup(func() { _ = db.Close() })
	for range 14 {
		g.done.Go(func() {
			for g.insert(g.t.Context(), db) {
			}
		})
	}
	rows := func() int {
		g.mu.Lock()
		defer g.mu.Unlock()
		return len(g.acked)
	}
	enough := rows() + 100
	await(g.t, "applications to write in a hurry", func() bool { return rows() > enough })
}

// insert inserts a row, and reports whether that was acknowledged.
func (g *groupClient) insert(ctx context.Context, db *sql.DB) bool {
	g.mu.Lock()
	n := g.next
	g.next++
	g.mu.Unlock()
	if _, err := db.ExecContext(ctx, "INSERT INTO app.t VALUES (?)", n); err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.acked[n] = true
	g.longest = max(g.longest, time.Since(g.last))
	g.last = time.Now()
	return true
}

func (g *groupClient) stop() {
	if g.end != nil {
		g.end()
	}
	g.end = nil
	g.done.Wait()
}

func (g *groupClient) takePause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	longest := max(g.longest, time.Since(g.last))
	g.longest = 0
	return longest
}

// compare expects every acknowledged row on every member.
func (g *groupClient) compare(what string) {
	g.t.Helper()
	g.mu.Lock()
	acked := make([]int, 0, len(g.acked))
	for n := range g.acked {
		acked = append(acked, n)
	}
	g.mu.Unlock()
	for _, address := range g.e.Members {
		g.admin(address, func(ctx context.Context, db *sql.DB) error {
			deadline := time.Now().Add(limits.Stuck)
			for { // a secondary may have to apply some yet
				there := map[int]bool{}
				rows, err := db.QueryContext(ctx, "SELECT n FROM app.t")
				if err != nil {
					return err
				}
				for rows.Next() {
					var n int
					if err := rows.Scan(&n); err != nil {
						return err
					}
					there[n] = true
				}
				if err := errors.Join(rows.Err(), rows.Close()); err != nil {
					return err
				}
				lost := slices.DeleteFunc(slices.Clone(acked), func(n int) bool { return there[n] })
				if len(lost) == 0 {
					return nil
				}
				if time.Now().After(deadline) {
					return fmt.Errorf("%s: the member at %s lacks %d of %d acknowledged rows", what, address, len(lost), len(acked))
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	g.t.Logf("%s: %d acknowledged rows are on each member", what, len(acked))
}

func (g *groupClient) members() []launcher.Member {
	g.t.Helper()
	all, err := g.looks.Members(g.t.Context())
	if err != nil {
		g.t.Fatal(err)
	}
	return all[g.spec.ID]
}

func (g *groupClient) primary() int {
	g.t.Helper()
	found := -1
	await(g.t, "a primary", func() bool {
		found = slices.IndexFunc(g.members(), func(m launcher.Member) bool { return m.Primary })
		return found >= 0
	})
	return found
}

// whole returns once all members are online, and the application has written since.
func (g *groupClient) whole(what string) {
	g.t.Helper()
	began := time.Now()
	await(g.t, what+": all members are online", func() bool {
		all := g.members()
		return len(all) == 3 && !slices.ContainsFunc(all, func(m launcher.Member) bool {
			return m.State != launcher.MemberOnline
		})
	})
	if g.end == nil {
		return
	}
	await(g.t, what+": a row is written", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.last.After(began)
	})
}

// ticks returns once the primary runs the application's event.
func (g *groupClient) ticks(what string) {
	g.t.Helper()
	db := g.open(net.JoinHostPort(g.e.Host, strconv.Itoa(g.e.Port)), "app", appPassword)
	defer db.Close()
	await(g.t, what+": the primary runs the event", func() bool {
		var runs bool
		err := db.QueryRowContext(g.t.Context(), `SELECT EXISTS (SELECT 1 FROM app.tick
			WHERE server = @@server_uuid AND at > NOW(3) - INTERVAL 2 SECOND)`).Scan(&runs)
		return err == nil && runs
	})
}

func (g *groupClient) pod(member int) string {
	return fmt.Sprintf("%s-%d-0", objectName(g.spec), member+1)
}

// container is the id of the container that runs, or ran last, in the pod of a member.
func (g *groupClient) container(member int) (id string) {
	g.t.Helper()
	var all struct {
		Items []struct {
			Metadata struct{ Name string }
			Status   struct {
				ContainerStatuses []struct{ ContainerID string }
			}
		}
	}
	g.p.Do(g.t, http.MethodGet, g.p.Path("pods"), nil, &all)
	for _, pod := range all.Items {
		if pod.Metadata.Name == g.pod(member) && len(pod.Status.ContainerStatuses) > 0 {
			id = pod.Status.ContainerStatuses[0].ContainerID
		}
	}
	return id
}

func (g *groupClient) kill(member int) {
	g.t.Helper()
	if !shared.Node.Kill(g.p.Name, g.pod(member)) {
		g.t.Errorf("the pod %s has no container", g.pod(member))
	}
}

// loseVolume deletes the claim of a member with its pod, as an operator does whose node is lost for good.
func (g *groupClient) loseVolume(member int) {
	g.t.Helper()
	claim := strings.TrimSuffix(g.pod(member), "-0")
	g.p.Do(g.t, http.MethodDelete, g.p.Path("persistentvolumeclaims/"+claim), nil, nil)
	g.deletePod(member)
}

func (g *groupClient) deletePod(member int) {
	g.t.Helper()
	g.p.Do(g.t, http.MethodDelete, g.p.Path("pods/"+g.pod(member)), nil, nil)
}

// spread expects each member on a node of its own.
func (g *groupClient) spread() {
	g.t.Helper()
	nodes := map[string]bool{}
	for member := range 3 {
		var pod struct{ Spec struct{ NodeName string } }
		g.p.Do(g.t, http.MethodGet, g.p.Path("pods/"+g.pod(member)), nil, &pod)
		nodes[pod.Spec.NodeName] = true
	}
	if len(nodes) != 3 {
		g.t.Errorf("the members are on the nodes %v", nodes)
	}
}

// resized expects that each member has that much memory.
func (g *groupClient) resized(memory string) {
	g.t.Helper()
	for member := range 3 {
		var pod struct {
			Spec struct {
				Containers []struct {
					Resources struct{ Limits map[string]string }
				}
			}
		}
		g.p.Do(g.t, http.MethodGet, g.p.Path("pods/"+g.pod(member)), nil, &pod)
		if limit := pod.Spec.Containers[0].Resources.Limits["memory"]; limit != memory {
			g.t.Errorf("member %d has %s of memory, want %s", member+1, limit, memory)
		}
	}
}

// renew expects that all members load a certificate of another CA, while their sessions stay open.
func (g *groupClient) renew() {
	g.t.Helper()
	began := time.Now()
	authority, configured := launchertest.NewAuthority(g.t), &launchertest.Authorities{}
	configured.Set(authority, true, authority)
	p := *g.p
	p.cfg.Authority, p.cfg.RenewInterval = configured.Get, 100*time.Millisecond
	p.cfg.Exec = func(ctx context.Context, _ string, e launcher.Endpoint, statement string) error {
		return mysqladmin.Exec(ctx, login(g.spec, e), statement)
	}
	var guests []*sql.Conn
	var containers []string
	for member, address := range g.e.Members {
		db := g.open(address, g.spec.AdminUser, g.spec.AdminPassword)
		defer db.Close()
		guest, err := db.Conn(g.t.Context())
		if err != nil {
			g.t.Fatal(err)
		}
		guests, containers = append(guests, guest), append(containers, g.container(member))
	}
	l := p.open(g.t)
	defer l.Close()
	await(g.t, "the launcher to return the next CA alone", func() bool {
		e, err := l.Endpoint(g.t.Context(), g.spec.ID)
		if err != nil {
			g.t.Fatal(err)
		}
		g.e.CACertificate = e.CACertificate
		return string(e.CACertificate) == string(authority.Certificate)
	})
	for member, address := range g.e.Members {
		g.admin(address, func(ctx context.Context, db *sql.DB) error { return db.PingContext(ctx) })
		if err := guests[member].PingContext(g.t.Context()); err != nil {
			g.t.Errorf("a session on member %d has ended: %v", member+1, err)
		}
		if g.container(member) != containers[member] {
			g.t.Errorf("member %d was restarted", member+1)
		}
	}
	g.whole("renewed")
	g.t.Logf("renewed after %.1f s", time.Since(began).Seconds())
}

func (g *groupClient) suspend() {
	g.t.Helper()
	began := time.Now()
	if _, _, err := finish(g.t, suspending(g.l, g.spec)); err != nil {
		g.t.Fatal(err)
	}
	var left struct{ Items []any }
	g.p.Do(g.t, http.MethodGet, g.p.Path("pods"), nil, &left)
	if len(left.Items) > 0 {
		g.t.Errorf("a suspended group has %d pods", len(left.Items))
	}
	if _, err := g.l.Endpoint(g.t.Context(), g.spec.ID); !errors.Is(err, launcher.ErrNotFound) {
		g.t.Errorf("the endpoint of a suspended group: %v", err)
	}
	g.t.Logf("suspended after %.1f s", time.Since(began).Seconds())
}

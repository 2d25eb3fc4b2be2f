package groups

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/kubernetes/kubernetestest"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/store"
	"mysql-broker/test/kubernetes/cluster"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

const (
	size    = 3
	clients = 16

	adminUser = "broker_admin" // of every dedicated server
)

// group is an instance with three members, its broker, and the applications that write to it.
type group struct {
	t     *testing.T
	p     testdrive.Platform
	start func() testdrive.Platform

	nodes       cluster.RealNodes
	namespace   string
	name        string // of its Service
	credentials testdrive.Credentials
	admins      [size]*sql.DB // of each member

	mu    sync.Mutex
	next  int
	acked map[int]bool
	sent  time.Time // when the latest one was sent that was acknowledged
	at    time.Time // when it was acknowledged
}

// newGroup creates an instance by the API of a broker, binds it, and has applications write.
func newGroup(t *testing.T) *group {
	t.Helper()
	server := testdrive.Private(t, mysqld.MySQL)
	env, inspectors := testdrive.OnKubernetes(t, testdrive.Environment(t, server), mysqld.MySQL, &onKubernetes, "")
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("dedicated-small",
		"async: required, memory_mb: 256", "members: 3, async: required, memory_mb: 512"))
	g := &group{t: t, nodes: onKubernetes.Node.(cluster.RealNodes), acked: map[int]bool{},
		namespace: inspectors["kubernetes"].(kubernetestest.Inspector).Namespace,
		start:     func() testdrive.Platform { return testdrive.StartPlatform(t, server, env) }}
	explain := sync.OnceFunc(func() {
		if t.Failed() {
			g.explain()
		}
	})
	t.Cleanup(explain)
	g.p = g.start()
	began := time.Now()
	i := g.p.MakeOwn(t, "dedicated-small")
	t.Logf("created after %.1f s", time.Since(began).Seconds())
	_, g.credentials = i.Bound(t, nil)
	g.findMembers(env, i.ID)
	t.Cleanup(explain) // before the members' sessions are closed
	testdrive.Exec(t, g.credentials.Open(t), "CREATE TABLE numbered (n INT PRIMARY KEY)")
	var writing sync.WaitGroup
	ctx, stop := context.WithCancel(context.Background())
	for range clients {
		db := g.open(g.credentials.Username, g.credentials.Password, g.credentials.Port)
		writing.Go(func() { g.write(ctx, db) })
	}
	t.Cleanup(func() {
		stop()
		writing.Wait()
	})
	return g
}

// findMembers prepares sessions of the instance's administrator, whom also secondaries let in.
func (g *group) findMembers(env map[string]string, instance string) {
	g.t.Helper()
	var services struct {
		Items []struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct{ Ports []struct{ NodePort int } }
		}
	}
	g.call(http.MethodGet, "/api/v1/namespaces/"+g.namespace+"/services", nil, &services)
	ports := map[string]int{}
	for _, s := range services.Items {
		port := s.Spec.Ports[0].NodePort
		ports[s.Metadata.Labels["mysql-broker/member"]] = port
		if port == g.credentials.Port {
			g.name = s.Metadata.Name
		}
	}
	keys, err := store.ParseKeyset(env["ENCRYPTION_KEYSET"])
	if err != nil {
		g.t.Fatal(err)
	}
	records, err := store.Open(g.t.Context(), env["DATABASE_URL"], keys)
	if err != nil {
		g.t.Fatal(err)
	}
	defer records.Close()
	recorded, err := records.Instances.Get(g.t.Context(), instance)
	if err != nil {
		g.t.Fatal(err)
	}
	for n := range size {
		port := ports[strconv.Itoa(n+1)]
		if port == 0 {
			g.t.Fatalf("member %d has no Service: %v", n+1, ports)
		}
		g.admins[n] = g.open(adminUser, recorded.AdminPassword, port)
	}
}

// open prepares one connection, which gives up after a few seconds.
func (g *group) open(user, password string, port int) *sql.DB {
	g.t.Helper()
	cfg := g.credentials.Login(g.t, user, password, net.JoinHostPort(g.credentials.Host, strconv.Itoa(port)),
		g.credentials.Database)
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout, cfg.InterpolateParams = 2*time.Second, 10*time.Second, 10*time.Second, true
	db := testdrive.Connect(g.t, cfg)
	db.SetMaxOpenConns(1)
	return db
}

// write inserts numbered rows until the context ends.
func (g *group) write(ctx context.Context, db *sql.DB) {
	for ctx.Err() == nil {
		g.mu.Lock()
		n := g.next
		g.next++
		g.mu.Unlock()
		sent := time.Now()
		_, err := db.ExecContext(ctx, "INSERT INTO numbered VALUES (?)", n)
		if err == nil {
			g.mu.Lock()
			g.acked[n] = true
			if sent.After(g.sent) {
				g.sent, g.at = sent, time.Now()
			}
			g.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond): // members that join have to keep up on a busy machine
		}
	}
}

// writable returns how long after since a row was acknowledged that was sent after that.
func (g *group) writable(t *testing.T, since time.Time) (took time.Duration) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "a row is written", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		took = g.at.Sub(since)
		return g.sent.After(since)
	})
	return took
}

// lost returns how many rows were acknowledged, and how many of them some member lacks although it has executed all that
// the primary has. A member that gets no further is no loss: it fails the test by itself.
func (g *group) lost(t *testing.T, primary int) (lost, acked int) {
	t.Helper()
	g.mu.Lock()
	var all []int
	for n := range g.acked {
		all = append(all, n)
	}
	g.mu.Unlock()
	g.executed(t, primary, g.text(t, primary, "SELECT received_transaction_set "+
		"FROM performance_schema.replication_connection_status WHERE channel_name = 'group_replication_applier'"))
	everything := g.text(t, primary, "SELECT @@GLOBAL.gtid_executed")
	lackedBy := map[int]int{}
	for n := range size {
		member := (primary + n) % size // what applications read is first
		g.executed(t, member, everything)
		var there map[int]bool
		testdrive.Eventually(t, limits.Stuck, fmt.Sprintf("member %d is read", member+1), func() (read bool) {
			var err error
			if there, err = readNumbers(t.Context(), g.admins[member]); err != nil {
				t.Logf("member %d: %v", member+1, err)
			}
			return err == nil
		})
		missing := 0
		for _, n := range all {
			if !there[n] {
				missing++
				lackedBy[n]++
			}
		}
		if missing > 0 {
			t.Logf("member %d lacks %d rows, the primary is member %d", member+1, missing, primary+1)
		}
	}
	byAll := 0
	for _, members := range lackedBy {
		if members == size {
			byAll++
		}
	}
	if len(lackedBy) > 0 {
		t.Logf("every member lacks %d rows, some member %d", byAll, len(lackedBy))
	}
	return len(lackedBy), len(all)
}

// executed waits until a member has executed some transactions.
func (g *group) executed(t *testing.T, member int, transactions string) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, fmt.Sprintf("member %d, which is online, executes what it lacks", member+1),
		func() bool {
			var late bool
			return g.admins[member].QueryRowContext(t.Context(), "SELECT WAIT_FOR_EXECUTED_GTID_SET(?, 5)",
				transactions).Scan(&late) == nil && !late
		})
}

// text returns what a member says once it does.
func (g *group) text(t *testing.T, member int, query string) (text string) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, fmt.Sprintf("member %d responds", member+1), func() bool {
		return g.admins[member].QueryRowContext(t.Context(), query).Scan(&text) == nil
	})
	return text
}

// out waits until the others have excluded a member.
func (g *group) out(t *testing.T, member int) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, fmt.Sprintf("member %d is excluded", member+1), func() bool {
		var members int
		return g.admins[(member+1)%size].QueryRowContext(t.Context(),
			"SELECT COUNT(*) FROM performance_schema.replication_group_members").Scan(&members) == nil && members == size-1
	})
}

func readNumbers(ctx context.Context, admin *sql.DB) (map[int]bool, error) {
	rows, err := admin.QueryContext(ctx, "SELECT n FROM numbered")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	there := map[int]bool{}
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return nil, err
		}
		there[n] = true
	}
	return there, rows.Err()
}

// seen returns which members one says are online, and which one is the primary, or -1, counted from 0.
func (g *group) seen(t *testing.T, by int) (online int, primary int) {
	t.Helper()
	primary = -1
	rows, err := g.admins[by].QueryContext(t.Context(),
		"SELECT member_host, member_state, member_role FROM performance_schema.replication_group_members")
	if err != nil {
		return 0, -1
	}
	defer rows.Close()
	for rows.Next() {
		var host, state, role string
		if rows.Scan(&host, &state, &role) != nil || state != "ONLINE" {
			continue
		}
		online++
		if role == "PRIMARY" {
			primary = slices.IndexFunc([]string{"1", "2", "3"}, func(n string) bool {
				return strings.HasPrefix(host, g.name+"-"+n+"-0.")
			})
		}
	}
	if rows.Err() != nil {
		return 0, -1
	}
	return online, primary
}

// whole returns the primary once all members say that all are online and which one it is.
func (g *group) whole(t *testing.T) (primary int) {
	t.Helper()
	testdrive.Eventually(t, limits.Stuck, "all members are online", func() bool {
		var online int
		online, primary = g.seen(t, 0)
		for by := 1; by < size; by++ {
			also, same := g.seen(t, by)
			if also != size || same != primary {
				return false
			}
		}
		return online == size && primary >= 0
	})
	return primary
}

func (g *group) pod(member int) string { return fmt.Sprintf("%s-%d-0", g.name, member+1) }

// node is the one that a member is on.
func (g *group) node(t *testing.T, member int) cluster.RealNode {
	t.Helper()
	var pod struct{ Spec struct{ NodeName string } }
	g.call(http.MethodGet, "/api/v1/namespaces/"+g.namespace+"/pods/"+g.pod(member), nil, &pod)
	at := slices.IndexFunc(g.nodes.Nodes, func(n cluster.RealNode) bool { return n.Name == pod.Spec.NodeName })
	if at < 0 {
		t.Fatalf("member %d is on no node: %q", member+1, pod.Spec.NodeName)
	}
	return g.nodes.Nodes[at]
}

func (g *group) call(method, path string, body, into any) {
	g.t.Helper()
	status, answer, err := onKubernetes.Call(g.t.Context(), method, path, body)
	if err == nil && status >= 300 {
		err = fmt.Errorf("status %d: %s", status, answer)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer, into)
	}
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
}

// explain logs what is gone once the test has ended.
func (g *group) explain() {
	for n, admin := range g.admins {
		if admin != nil {
			testdrive.LogMember(g.t, g.pod(n), admin)
		}
	}
	log := g.p.Log()
	g.t.Logf("the broker: %s", log[max(0, len(log)-20_000):])
	for _, kind := range []string{"pods", "events"} {
		_, answer, err := onKubernetes.Call(context.Background(), http.MethodGet, "/api/v1/namespaces/"+g.namespace+"/"+kind, nil)
		g.t.Logf("%s: %s %v", kind, answer[max(0, len(answer)-20_000):], err)
	}
}

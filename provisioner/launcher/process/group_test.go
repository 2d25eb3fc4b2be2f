package process_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/servers"
)

// rollTime is for how long at most applications may be unable to write while the members are restarted one by one.
const rollTime = 15 * time.Second

// A group is resized, upgraded and suspended while applications write, and destroyed. If a member does not start with
// the later version, all have the former one again; on MariaDB, that is the second one. No acknowledged row is lost.
func TestGroup(t *testing.T) {
	t.Parallel()
	for _, binary := range binaries() {
		t.Run(binary.Flavour, func(t *testing.T) {
			t.Parallel()
			testGroup(t, binary)
		})
	}
}

func testGroup(t *testing.T, binary mysqld.Binary) {
	cfg := newConfig(t, binary)
	l := open(t, cfg)
	defer func() { l.Close() }()
	spec := newSpec("trio")
	spec.MemoryMB, spec.Members, spec.Version = 512, 3, binary.Version
	began := time.Now()
	g := &groupClients{flavour: binary.Flavour, spec: spec, end: launch(t, l, spec)}
	t.Logf("launched after %.1f s", time.Since(began).Seconds())
	for wanted, ids := range [][]string{{"another"}, {"another", spec.ID}} {
		if found, err := l.Members(t.Context(), ids...); err != nil || len(found) != wanted || len(found[spec.ID]) != wanted*3 {
			t.Errorf("the members of %v: %v, %v", ids, found, err)
		}
	}
	g.write(t)

	during := func(what string, do func() (launcher.Endpoint, error)) {
		t.Helper()
		began := time.Now()
		end, err := do()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if !slices.Equal(end.Members, g.end.Members) {
			t.Errorf("%s: the members are at %v, and were at %v", what, end.Members, g.end.Members)
		}
		t.Logf("%s: %.1f s, and no row for %.1f s", what, time.Since(began).Seconds(), g.longestPause().Seconds())
		if pause := g.takePause(); pause > rollTime {
			t.Errorf("%s: no row was written for %v", what, pause)
		}
		g.compare(t, what)
	}
	spec.MemoryMB = 640
	during("resize", func() (launcher.Endpoint, error) { return l.Resize(t.Context(), spec, ignore) })
	for member := range 3 {
		if text, err := os.ReadFile(memberFile(cfg, spec.ID, member, "state.json")); err != nil ||
			!strings.Contains(string(text), `"memory_mb": 640`) {
			t.Errorf("member %d was not resized: %v, %s", member+1, err, text)
		}
	}
	l.Close()
	breaks := "echo '[ERROR] no such option' >&2; exit 1"
	if binary.Flavour == mysqld.MariaDB { // for the second member
		breaks = `case "$*" in */members/1/*) exec "$real" "$@" ;; esac; ` + breaks
	}
	cfg.Others = []mysqld.Binary{broken(t, binary, breaks)}
	l = open(t, cfg)
	spec.Version = cfg.Others[0].Version
	during("an upgrade that fails", func() (launcher.Endpoint, error) {
		_, err := l.Upgrade(t.Context(), spec, ignore, ignore)
		failed, ok := errors.AsType[*launcher.Error](err)
		if !ok || failed.Action != launcher.GiveUp || !strings.Contains(failed.Sentence, "They continue with") {
			t.Errorf("upgrade to a version that does not start: %v", err)
		}
		return l.Revert(t.Context(), spec, ignore, ignore)
	})
	g.hasVersion(t, binary.Version)
	l.Close()
	cfg.Others = []mysqld.Binary{servers.Renumbered(t, binary), servers.Later(t, binary)}
	l = open(t, cfg)
	spec.Version = cfg.Others[1].Version
	if binary.Flavour == mysqld.MariaDB && !launcher.SameSeries(binary.Version, spec.Version) {
		var refused *launcher.Error
		if _, err := l.Upgrade(t.Context(), spec, ignore, ignore); !errors.As(err, &refused) || refused.Action != launcher.GiveUp {
			t.Errorf("upgrade to another series: %v", err)
		}
	}
	spec.Version = cfg.Others[0].Version
	during("upgrade", func() (launcher.Endpoint, error) { return l.Upgrade(t.Context(), spec, ignore, ignore) })
	g.hasVersion(t, spec.Version)

	g.stop()
	g.spec = spec
	suspendsGroup(t, l, cfg, g)
	l.Close()
	keepsPorts(t, cfg, g)
	destroysGroup(t, cfg, spec.ID)
}

// hasVersion expects that version of every member.
func (g *groupClients) hasVersion(t *testing.T, version string) {
	t.Helper()
	for _, address := range g.end.Members {
		g.on(t, address, func(ctx context.Context, db *sql.DB) error {
			var runs string
			if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&runs); err != nil || !strings.HasPrefix(runs, version) {
				t.Errorf("the member at %s runs %s, %v; want %s", address, runs, err, version)
			}
			return nil
		})
	}
}

// suspendsGroup suspends a group while an event runs each second, and launches it again. No server is killed.
func suspendsGroup(t *testing.T, l *process.Launcher, cfg process.Config, g *groupClients) {
	t.Helper()
	g.on(t, g.end.Members[0], func(ctx context.Context, db *sql.DB) error {
		exec(t, db, "CREATE TABLE app.tick (n INT AUTO_INCREMENT PRIMARY KEY, at DATETIME NOT NULL)",
			"CREATE EVENT app.ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO app.tick (at) VALUES (NOW())")
		eventually(t, "the event runs", func() bool {
			var ticks int
			return db.QueryRowContext(ctx, "SELECT COUNT(*) FROM app.tick").Scan(&ticks) == nil && ticks > 1
		})
		return nil
	})
	began := time.Now()
	if err := l.Suspend(t.Context(), g.spec.ID); err != nil {
		t.Fatal(err)
	}
	for member := range 3 {
		log := readFile(t, memberFile(cfg, g.spec.ID, member, "mysqld.log"))
		if last := log[strings.LastIndex(log, "ready for connections"):]; !strings.Contains(last, ": Shutdown complete") {
			t.Errorf("member %d was killed: %s", member+1, last)
		}
	}
	if left := processesOf(t, cfg.Dir); len(left) > 0 {
		t.Errorf("processes of a suspended group: %v", left)
	}
	if _, err := l.Endpoint(t.Context(), g.spec.ID); !errors.Is(err, launcher.ErrNotFound) {
		t.Errorf("the endpoint of a suspended group: %v", err)
	}
	t.Logf("suspended after %.1f s", time.Since(began).Seconds())
	began = time.Now()
	g.spec.Members = 0 // which its plan may have lost
	g.end = launch(t, l, g.spec)
	t.Logf("resumed after %.1f s", time.Since(began).Seconds())
	g.compare(t, "suspended and resumed")
}

// keepsPorts launches a server while the files of a member are lost, and expects that it gets no port of the group.
func keepsPorts(t *testing.T, cfg process.Config, g *groupClients) {
	t.Helper()
	lost := filepath.Dir(memberFile(cfg, g.spec.ID, 1, "data"))
	text, err := os.ReadFile(filepath.Join(lost, "data", "mysqld.pid"))
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
	_ = syscall.Kill(pid, syscall.SIGKILL)
	eventually(t, "the member has ended", func() bool { return !alive(pid) })
	if err := os.RemoveAll(lost); err != nil {
		t.Fatal(err)
	}
	l, err := process.Open(cfg) // which looks after no group
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	other := newSpec("other")
	other.Version = cfg.Binary.Version // of which there is a template
	end := launch(t, l, other)
	// The port at which the second member of Galera got what it had missed is free: no other member knows it.
	ports := map[string]int{mysqld.MySQL: 6, mysqld.MariaDB: 4}[cfg.Binary.Flavour]
	if slices.Contains(g.end.Members, net.JoinHostPort(end.Host, strconv.Itoa(end.Port))) || end.Port != cfg.PortMin+ports {
		t.Errorf("a server got port %d beside a group at %v", end.Port, g.end.Members)
	}
	if err := l.Destroy(t.Context(), other.ID); err != nil {
		t.Fatal(err)
	}
}

// destroysGroup destroys a group on a full disk, while another process holds the lock of a member for longer than the
// supervision takes to start a server that ended. No process stays.
func destroysGroup(t *testing.T, cfg process.Config, id string) {
	t.Helper()
	for member := range 3 {
		if member != 1 { // whose files are lost
			if err := os.Symlink("/dev/full", memberFile(cfg, id, member, "state.json.new")); err != nil {
				t.Fatal(err)
			}
		}
	}
	held, err := os.Open(filepath.Dir(memberFile(cfg, id, 2, "data")))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	l := open(t, cfg)
	defer l.Close()
	pid, _ := strconv.Atoi(readFile(t, memberFile(cfg, id, 0, "data/mysqld.pid")))
	destroyed := make(chan error, 1)
	go func() { destroyed <- l.Destroy(t.Context(), id) }()
	eventually(t, "the first member has ended", func() bool { return !alive(pid) })
	time.Sleep(2 * time.Second) // the supervision starts servers that ended after one second
	_ = held.Close()
	if err := <-destroyed; err != nil {
		t.Fatal(err)
	}
	if left := processesOf(t, cfg.Dir); len(left) > 0 {
		t.Errorf("processes of a destroyed group: %v", left)
	}
	eventually(t, "nothing is remembered of the group", func() bool { return !l.Remembers(id) })
}

func memberFile(cfg process.Config, id string, member int, name string) string {
	return filepath.Join(cfg.Dir, "instances", id, "members", strconv.Itoa(member+1), name)
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// groupClients are applications that write rows to a group.
type groupClients struct {
	flavour string
	spec    launcher.Spec
	end     launcher.Endpoint
	stop    func()

	mu     sync.Mutex
	rows   []int // that were acknowledged
	latest time.Time
	pause  time.Duration // the longest between two rows
}

// write has two applications write until stop is called, each as one that goes through its list of hosts.
func (g *groupClients) write(t *testing.T) {
	t.Helper()
	password := rand.Text()
	g.on(t, g.end.Members[0], func(ctx context.Context, db *sql.DB) error {
		exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT PRIMARY KEY)", "CREATE USER app IDENTIFIED BY '"+
			password+"'", "GRANT SELECT, INSERT ON app.* TO app")
		return nil
	})
	ctx, cancel := context.WithCancel(context.Background())
	var writing sync.WaitGroup
	for client := range 2 {
		writing.Go(func() {
			for n := client; ctx.Err() == nil; n += 2 {
				for _, host := range g.end.Members {
					db := g.open(t, host, "app", password)
					for ; g.insert(ctx, db, n); n += 2 {
						time.Sleep(5 * time.Millisecond) // so that a busy machine has time for the servers
					}
					_ = db.Close()
				}
			}
		})
	}
	g.stop = sync.OnceFunc(func() { cancel(); writing.Wait() })
	t.Cleanup(g.stop)
	eventually(t, "rows are written", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.rows) > 20 })
	g.takePause()
}

func (g *groupClients) insert(ctx context.Context, db *sql.DB, n int) (acknowledged bool) {
	limited, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := db.ExecContext(limited, fmt.Sprint("INSERT INTO app.t VALUES (", n, ")")); err != nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rows = append(g.rows, n)
	g.pause, g.latest = max(g.pause, time.Since(g.latest)), time.Now()
	return true
}

// longestPause is for how long no row was acknowledged, since takePause.
func (g *groupClients) longestPause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	return max(g.pause, time.Since(g.latest))
}

func (g *groupClients) takePause() time.Duration {
	pause := g.longestPause()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pause, g.latest = 0, time.Now()
	return pause
}

// compare expects every row that was acknowledged on the first member, which is the primary again.
func (g *groupClients) compare(t *testing.T, after string) {
	t.Helper()
	g.mu.Lock()
	wanted := slices.Clone(g.rows)
	g.mu.Unlock()
	there := map[int]bool{}
	g.on(t, g.end.Members[0], func(ctx context.Context, db *sql.DB) error {
		var readOnly bool
		if err := db.QueryRowContext(ctx, "SELECT @@GLOBAL.read_only").Scan(&readOnly); err != nil || readOnly {
			t.Errorf("%s: the first member is not the primary: %v", after, err)
		}
		rows, err := db.QueryContext(ctx, "SELECT n FROM app.t")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			there[n] = true
		}
		return rows.Err()
	})
	lost := slices.DeleteFunc(wanted, func(n int) bool { return there[n] })
	if len(lost) > 0 {
		t.Errorf("%s: acknowledged rows are lost: %v", after, lost)
	}
	t.Logf("%s: %d rows", after, len(there))
}

// on runs fn as the administrator on a member.
func (g *groupClients) on(t *testing.T, host string, fn func(context.Context, *sql.DB) error) {
	t.Helper()
	db := g.open(t, host, g.spec.AdminUser, g.spec.AdminPassword)
	defer db.Close()
	if err := fn(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

func (g *groupClients) open(t *testing.T, host, user, password string) *sql.DB {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(g.end.CACertificate)
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = user, password, "tcp", host
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: g.end.Host}
	cfg.Logger, cfg.Timeout, cfg.ReadTimeout = &mysql.NopLogger{}, 2*time.Second, 10*time.Second
	if g.flavour == mysqld.MariaDB { // what another member has committed, this one may not have applied yet
		cfg.Params = map[string]string{"wsrep_sync_wait": "1"}
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	return db
}

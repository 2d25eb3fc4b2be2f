package testdrive

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/test/admit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
)

// Postgres is a test's own cluster, which can freeze, crash and start again at the same address.
type Postgres struct {
	URL     string // for brokers
	cfg     pgcluster.Config
	cluster *pgcluster.Cluster
}

// StartPostgres starts a cluster, with additional environment variables (NAME=value). It is removed when the test ends.
func StartPostgres(t testing.TB, environ ...string) *Postgres {
	t.Helper()
	return startPostgres(t, pgcluster.Config{Env: environ})
}

func startPostgres(t testing.TB, cfg pgcluster.Config) *Postgres {
	t.Helper()
	servers.Needed(t)
	admit.Enter(t, admit.Postgres)
	cfg.Dir, cfg.Port, cfg.Durable = launcherDir(t), FreePort(t), true
	p := &Postgres{cfg: cfg}
	p.Start(t)
	p.URL = p.cluster.URL()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
		defer cancel()
		p.signal(t, syscall.SIGCONT)
		if err := p.cluster.Stop(ctx); err != nil {
			t.Errorf("stop PostgreSQL: %v", err)
		}
	})
	return p
}

// Start starts the cluster again after Kill.
func (p *Postgres) Start(t testing.TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	var err error
	if p.cluster, err = pgcluster.Start(ctx, p.cfg); err != nil {
		t.Fatal(err)
	}
}

// Kill ends every process of the cluster as a crash would.
func (p *Postgres) Kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	if err := p.cluster.Stop(t.Context()); err != nil { // releases its directory
		t.Fatal(err)
	}
}

// Freeze stops every process of the cluster: connections stay open and the kernel accepts new ones, but none gets a
// response.
func (p *Postgres) Freeze(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGSTOP) }

// Thaw continues a frozen cluster.
func (p *Postgres) Thaw(t testing.TB) { t.Helper(); p.signal(t, syscall.SIGCONT) }

// signal signals the postmaster first, so that it cannot start another process meanwhile.
func (p *Postgres) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	for postmaster := range Processes(t, p.cfg.Dir) {
		p.kill(t, postmaster, s)
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for field := range strings.FieldsSeq(string(raw)) {
			child, err := strconv.Atoi(field)
			if err != nil {
				t.Fatal(err)
			}
			p.kill(t, child, s)
		}
	}
}

func (p *Postgres) kill(t testing.TB, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil && err != syscall.ESRCH {
		t.Fatal(err)
	}
}

// Clock is the clock of a PostgreSQL cluster: the host's, plus what Set adds.
type Clock struct{ file string }

// libfaketime is where Debian and Ubuntu put it. https://github.com/wolfcw/libfaketime
const libfaketime = "/usr/lib/*/faketime/libfaketime.so.1"

// StartPostgresWithClock starts a cluster whose clock the test sets. Timers are not affected: PostgreSQL waits as long
// as before, as when an administrator or NTP sets a host's clock.
func StartPostgresWithClock(t testing.TB) (*Postgres, Clock) {
	t.Helper()
	found, err := filepath.Glob(libfaketime)
	if err != nil || len(found) == 0 {
		t.Fatalf("no %s: install faketime", libfaketime)
	}
	c := Clock{file: filepath.Join(launcherDir(t), "clock")}
	c.Set(t, 0)
	return StartPostgres(t, "LD_PRELOAD="+found[0], "FAKETIME_TIMESTAMP_FILE="+c.file, "FAKETIME_NO_CACHE=1",
		"FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_DISABLE_SHM=1"), c
}

// Set makes the clock differ from the host's by that much from now on.
func (c Clock) Set(t testing.TB, ahead time.Duration) {
	t.Helper()
	next := c.file + ".new"
	if err := os.WriteFile(next, fmt.Appendf(nil, "%+d\n", int(ahead.Seconds())), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, c.file); err != nil {
		t.Fatal(err)
	}
}

// OpenRecords connects to the PostgreSQL database of brokers in that environment until the test ends.
func OpenRecords(t testing.TB, env map[string]string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

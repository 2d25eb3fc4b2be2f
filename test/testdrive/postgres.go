package testdrive

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

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

// StartPostgres starts a cluster, which is removed when the test ends.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	return startPostgres(t, pgcluster.Config{})
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

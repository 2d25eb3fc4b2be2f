package testdrive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/provisioner/launcher/process/files"
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
func StartPostgres(t testing.TB) *Postgres { return startPostgres(t, "") }

// startPostgres starts a primary or, if primary is the URL of one, its standby.
func startPostgres(t testing.TB, primary string) *Postgres {
	servers.Needed(t)
	admit.Enter(t, admit.Postgres)
	p := &Postgres{cfg: pgcluster.Config{Dir: LauncherDir(t), Port: FreePort(t), Durable: true}}
	if primary != "" {
		copyPrimary(t, p.cfg.Dir, primary)
	}
	p.Start(t)
	p.URL = p.cluster.URL()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
		defer cancel()
		p.signal(t, syscall.SIGCONT)
		assert.NoError(t, p.cluster.Stop(ctx), "stop PostgreSQL")
	})
	return p
}

// copyPrimary makes a primary's copy of a cluster's directory, which starts as its standby.
func copyPrimary(t testing.TB, dir, primary string) {
	data := filepath.Join(dir, "data")
	runPostgres(t, primary, "pg_basebackup", "--pgdata="+data, "--write-recovery-conf", "--checkpoint=fast")
	u, err := url.Parse(primary)
	require.NoError(t, err)
	password, _ := u.User.Password()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "password"), []byte(password), 0o600))
	owner, err := files.LookupOwner()
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(data, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, owner.UID, owner.GID))
	}))
}

// Start starts the cluster again after Kill.
func (p *Postgres) Start(t testing.TB) {
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	var err error
	p.cluster, err = pgcluster.Start(ctx, p.cfg)
	require.NoError(t, err)
}

// Kill ends every process of the cluster as a crash would.
func (p *Postgres) Kill(t testing.TB) {
	p.signal(t, syscall.SIGKILL)
	require.NoError(t, p.cluster.Stop(t.Context())) // releases its directory
}

// Freeze stops every process of the cluster: connections stay open and the kernel accepts new ones, but none gets a
// response.
func (p *Postgres) Freeze(t testing.TB) { p.signal(t, syscall.SIGSTOP) }

func (p *Postgres) Thaw(t testing.TB) { p.signal(t, syscall.SIGCONT) }

// signal signals the postmaster first, so that it cannot start another process meanwhile.
func (p *Postgres) signal(t testing.TB, s syscall.Signal) {
	for postmaster := range Processes(t, p.cfg.Dir) {
		signal(t, postmaster, s)
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
		require.False(t, err != nil && !os.IsNotExist(err), "%v", err)
		for field := range strings.FieldsSeq(string(raw)) {
			child, err := strconv.Atoi(field)
			require.NoError(t, err)
			signal(t, child, s)
		}
	}
}

// PostgresPair is a primary and its standby.
type PostgresPair struct {
	Primary, Standby *Postgres
	URL              string // names both servers, the primary first
}

// StartPostgresPair starts a primary whose commits wait for the standby if synchronous is true.
func StartPostgresPair(t testing.TB, synchronous bool) *PostgresPair {
	p := &PostgresPair{Primary: StartPostgres(t)}
	p.Standby = startPostgres(t, p.Primary.URL)
	// By default, a standby that lags behind cancels any query that its replay conflicts with (40001). Here replay waits.
	p.Standby.Exec(t, "ALTER SYSTEM SET max_standby_streaming_delay = -1")
	p.Standby.Exec(t, "ALTER SYSTEM SET max_standby_archive_delay = -1")
	p.Standby.Exec(t, "SELECT pg_reload_conf()")
	if synchronous {
		p.Primary.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
		p.Primary.Exec(t, "SELECT pg_reload_conf()")
	}
	Eventually(t, "the standby follows", func() bool {
		return p.Primary.is(t, `SELECT EXISTS (SELECT FROM pg_stat_replication WHERE state = 'streaming'
			AND sync_state = $1)`, map[bool]string{true: "sync", false: "async"}[synchronous])
	})
	u, err := url.Parse(p.Primary.URL)
	require.NoError(t, err, "the URL of the primary is malformed")
	standby, err := url.Parse(p.Standby.URL)
	require.NoError(t, err, "the URL of the standby is malformed")
	u.Host += "," + standby.Host
	u.RawQuery += "&target_session_attrs=read-write"
	p.URL = u.String()
	return p
}

// Promote makes the standby a primary. It returns when the server accepts writes. A query that waited for that would be
// one that replay conflicts with, and so wait for itself.
func (p *PostgresPair) Promote(t testing.TB) {
	p.Standby.Exec(t, "SELECT pg_promote(wait => false)")
	Eventually(t, "the standby is promoted", func() bool { return p.Standby.is(t, "SELECT NOT pg_is_in_recovery()") })
}

// Exec runs a statement as the superuser.
func (p *Postgres) Exec(t testing.TB, statement string) {
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// Has reports whether a query has a row.
func (p *Postgres) Has(t testing.TB, query string) bool { return p.is(t, "SELECT EXISTS ("+query+")") }

// is runs a query of one boolean.
func (p *Postgres) is(t testing.TB, query string, args ...any) (yes bool) {
	p.with(t, func(ctx context.Context, conn *pgx.Conn) error { return conn.QueryRow(ctx, query, args...).Scan(&yes) })
	return yes
}

func (p *Postgres) with(t testing.TB, fn func(context.Context, *pgx.Conn) error) {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	conn, err := pgx.Connect(ctx, p.URL)
	require.NoError(t, err)
	defer conn.Close(ctx)
	require.NoError(t, fn(ctx, conn))
}

// DumpPostgres backs a database up as docs/upgrade.md has operators do it, and returns the backup's path.
func DumpPostgres(t testing.TB, database string) string {
	path := filepath.Join(t.TempDir(), "backup")
	runPostgres(t, database, "pg_dump", "--format=custom", "--file="+path)
	return path
}

// RestorePostgres puts a backup in the place of what is in a database.
func RestorePostgres(t testing.TB, database, backup string) {
	runPostgres(t, database, "pg_restore", "--clean", "--if-exists", "--single-transaction", backup)
}

// runPostgres runs one of PostgreSQL's programs, of the newest version where Debian has several, on the database of that
// URL. The password is not in the arguments, because other tests look for it in those of all processes.
func runPostgres(t testing.TB, database, program string, args ...string) {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal("the database's URL is not one") // err would show the password
	}
	password, _ := u.User.Password()
	u.User = url.User(u.User.Username())
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	require.NoError(t, err)
	path := program
	if len(found) > 0 {
		path = slices.Max(found)
	}
	cmd := exec.CommandContext(t.Context(), path, append([]string{"--dbname=" + u.String()}, args...)...)
	cmd.Env = append(os.Environ(), "PGPASSWORD="+password)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s: %v\n%s", program, err, out)
}

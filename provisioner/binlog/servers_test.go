package binlog_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/binlog"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/binlogs"
	"mysql-broker/test/compare"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m, stopServers) }

// server is a dedicated server with binary logs.
type server struct {
	mysqld.Binary
	launcher launcher.Stopper
	login    binlog.Login
}

// started has the servers of this test binary.
var started struct {
	once sync.Once
	all  []server
	dir  string
	err  error
}

func stopServers() error {
	errs := []error{}
	for _, s := range started.all {
		errs = append(errs, s.launcher.Destroy(context.Background(), "logged"))
		s.launcher.Close()
	}
	return errors.Join(append(errs, os.RemoveAll(started.dir))...)
}

// eachServer runs fn on a server of every program there is, later ones included, or on one: see servers.Chosen. If on is
// not empty, it is the flavour, and perhaps the version, of those that can run it.
func eachServer(t *testing.T, on string, fn func(t *testing.T, s server)) {
	servers.Needed(t)
	started.once.Do(func() { started.err = startServers() })
	require.NoError(t, started.err)
	able := slices.DeleteFunc(slices.Clone(started.all), func(s server) bool {
		return !strings.HasPrefix(s.Flavour+"-"+s.Version, on)
	})
	for _, s := range servers.Chosen(t, able) {
		t.Run(s.Flavour+"-"+s.Version, func(t *testing.T) {
			t.Parallel()
			fn(t, s)
		})
	}
}

func startServers() (err error) {
	if started.dir, err = os.MkdirTemp("", "mysql-broker-test-"); err != nil {
		return err
	}
	if err := os.Chmod(started.dir, 0o711); err != nil {
		return err
	}
	paths := filepath.SplitList(os.Getenv("MYSQLD") + ":" + os.Getenv("LATER_MYSQLD"))
	for i, b := range mysqld.FindBinaries(slices.DeleteFunc(paths, func(path string) bool { return path == "" })...) {
		s, err := startServer(b, filepath.Join(started.dir, strconv.Itoa(i)), 22000+20*(os.Getpid()%40)+2*i)
		if err != nil {
			return fmt.Errorf("start %s: %w", b.Path, err)
		}
		started.all = append(started.all, s)
	}
	return nil
}

func startServer(b mysqld.Binary, dir string, port int) (s server, err error) {
	s.Binary = b
	s.launcher, err = launchers.OpenHere(map[string]string{"LAUNCHER_DIR": dir, "LAUNCHER_MYSQLD": b.Path,
		"LAUNCHER_PORTS": fmt.Sprintf("%d-%d", port, port+1)},
		launcher.Options{Supervise: true, UnlimitedMemory: true,
			Settings: []string{"sync-binlog=0", "innodb-flush-log-at-trx-commit=0", "max-allowed-packet=1G"}})
	if err != nil {
		return s, err
	}
	spec := launcher.Spec{ID: "logged", MemoryMB: 512, StorageMB: 1024, BinaryLogs: true, AdminUser: "tests",
		AdminPassword: rand.Text()}
	end, err := s.launcher.Launch(context.Background(), spec, func(string) {})
	if err != nil {
		return s, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(end.CACertificate)
	s.login = binlog.Login{Addr: net.JoinHostPort(end.Host, strconv.Itoa(end.Port)), User: spec.AdminUser,
		Password: spec.AdminPassword, TLS: &tls.Config{RootCAs: roots, ServerName: end.Host}}
	return s, nil
}

// open returns connections to a database.
func (s server) open(t *testing.T, user, password, database string) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.TLS, cfg.DBName = user, password, "tcp", s.login.Addr, s.login.TLS, database
	cfg.MaxAllowedPacket = 1<<30 - 1 // as the broker has it
	return testdrive.Connect(t, cfg)
}

func (s server) admin(t *testing.T, database string) *sql.DB {
	return s.open(t, s.login.User, s.login.Password, database)
}

// tenant is a database with the account that owns it, which may do there what bindings may.
type tenant struct {
	server
	database string
	db       *sql.DB
}

func (s server) tenant(t *testing.T) tenant {
	name, password := "db_"+strings.ToLower(rand.Text()), rand.Text()
	user := "u_" + name[3:20]
	admin := s.admin(t, "")
	testdrive.Exec(t, admin, "CREATE DATABASE "+name+" CHARACTER SET utf8mb4",
		fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", user, password),
		fmt.Sprintf("GRANT ALL ON `%s`.* TO %s", strings.ReplaceAll(name, "_", `\_`), user))
	t.Cleanup(func() {
		for _, statement := range []string{"DROP DATABASE " + name, "DROP USER " + user} {
			_, err := admin.Exec(statement)
			assert.NoError(t, err)
		}
	})
	return tenant{s, name, s.open(t, user, password, name)}
}

// run runs statements in a session of their own. A statement that begins with "@" is for a second session, and one that
// begins with "!" may fail. $DB stands for the name of the database.
func (n tenant) run(t *testing.T, statements ...string) {
	first, second := n.session(t), n.session(t)
	for _, statement := range statements {
		on, mayFail := first, strings.HasPrefix(statement, "!")
		statement = strings.ReplaceAll(strings.TrimPrefix(statement, "!"), "$DB", n.database)
		if strings.HasPrefix(statement, "@") {
			on, statement = second, statement[1:]
		}
		_, err := on.ExecContext(t.Context(), statement)
		require.False(t, err != nil && !mayFail, "%s: %v", statement, err)
	}
}

func (n tenant) session(t *testing.T) *sql.Conn {
	conn, err := n.db.Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Raw(func(any) error { return driver.ErrBadConn }) }) // ends it, with its settings
	return conn
}

// position is where the server's logs end.
func (s server) position(t *testing.T) (at binlog.Position) {
	for _, row := range query(t, s.admin(t, ""), "SHOW BINARY LOGS") {
		at.File = row[0]
		at.Offset, _ = strconv.ParseInt(row[1], 10, 64)
	}
	return at
}

// query returns what a query finds.
func query(t *testing.T, db *sql.DB, text string) (all [][]string) {
	rows, err := db.QueryContext(t.Context(), text)
	require.NoError(t, err, text)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		row, into := make([]string, len(columns)), make([]any, len(columns))
		for n := range row {
			into[n] = &row[n]
		}
		require.NoError(t, rows.Scan(into...))
		all = append(all, row)
	}
	require.NoError(t, rows.Err(), text)
	return all
}

// replay repeats in another database what has happened in this one since a position.
func (n tenant) replay(t *testing.T, from binlog.Position, to tenant) error {
	var logs binlogs.Archive
	require.NoError(t, binlog.Dump(t.Context(), n.login, from, &logs))
	r := &binlog.Replay{Administrator: to.admin(t, to.database), Owner: to.db, Source: n.database, Target: to.database,
		MySQL: to.Flavour == mysqld.MySQL, Until: time.Now().Add(time.Hour), Alive: func() error { return nil },
		Empty: func(ctx context.Context) error {
			return transfer.Empty(ctx, transfer.Target{DB: to.db, Database: to.database}, func() error { return nil })
		}}
	defer r.Close()
	return logs.Replay(t.Context(), r, binlog.Part{})
}

// differences lists what another database has otherwise. The log does not have the numbers of what was rolled back.
func (n tenant) differences(t *testing.T, other tenant) []compare.Difference {
	describe := func(of tenant) compare.Facts {
		facts, err := compare.Describe(t.Context(), compare.Side{DB: of.admin(t, ""), Database: of.database})
		require.NoError(t, err)
		return facts
	}
	return slices.DeleteFunc(compare.Diff(describe(n), describe(other)), compare.Difference.CountsLess)
}

// damage lists what the server finds wrong with its tables.
func (n tenant) damage(t *testing.T) (all []string) {
	db := n.admin(t, n.database)
	for _, table := range query(t, db, "SHOW FULL TABLES WHERE table_type <> 'VIEW'") {
		for _, row := range query(t, db, "CHECK TABLE `"+table[0]+"` EXTENDED") {
			if row[3] != "OK" && !strings.Contains(row[3], "doesn't support") { // sequences have no check
				all = append(all, table[0]+": "+row[3])
			}
		}
	}
	return all
}

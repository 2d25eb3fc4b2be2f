package binlog_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
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
	"mysql-broker/test/servers"
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
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
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
	for _, statement := range []string{"CREATE DATABASE " + name + " CHARACTER SET utf8mb4",
		fmt.Sprintf("CREATE USER %s IDENTIFIED BY '%s'", user, password),
		fmt.Sprintf("GRANT ALL ON `%s`.* TO %s", strings.ReplaceAll(name, "_", `\_`), user)} {
		exec(t, admin, statement)
	}
	t.Cleanup(func() {
		for _, statement := range []string{"DROP DATABASE " + name, "DROP USER " + user} {
			_, err := admin.Exec(statement)
			assert.NoError(t, err)
		}
	})
	return tenant{s, name, s.open(t, user, password, name)}
}

type executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

func exec(t *testing.T, on executor, statements ...string) {
	for _, statement := range statements {
		_, err := on.ExecContext(t.Context(), statement)
		require.NoError(t, err, statement)
	}
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

// query returns what a query finds, NULL as "NULL".
func query(t *testing.T, db *sql.DB, text string) (all [][]string) {
	rows, err := db.QueryContext(t.Context(), text)
	require.NoError(t, err, text)
	defer rows.Close()
	columns, err := rows.Columns()
	require.NoError(t, err)
	for rows.Next() {
		row, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
		for n := range row {
			into[n] = &row[n]
		}
		require.NoError(t, rows.Scan(into...))
		texts := make([]string, len(columns))
		for n, value := range row {
			if texts[n] = value.String; !value.Valid {
				texts[n] = "NULL"
			}
		}
		all = append(all, texts)
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

var (
	counters = regexp.MustCompile(` AUTO_INCREMENT=\d+`)
	// MySQL prints these if the statement had them, as the text that it logs of CREATE TABLE … SELECT has.
	collations = regexp.MustCompile(` (?:CHARACTER SET|COLLATE) \w+`)
	definers   = regexp.MustCompile("DEFINER=`[^`]*`@`[^`]*`")
)

// contents lists all that a database has, so that two can be compared.
func (n tenant) contents(t *testing.T) (all []string) {
	db := n.admin(t, n.database)
	exec(t, db, "SET SESSION time_zone = '+00:00'")
	db.SetMaxOpenConns(1)
	add := func(format string, args ...any) {
		text := strings.ReplaceAll(fmt.Sprintf(format, args...), n.database, "$DB")
		all = append(all, definers.ReplaceAllString(counters.ReplaceAllString(text, ""), ""))
	}
	for _, table := range query(t, db, "SHOW FULL TABLES") {
		create := query(t, db, "SHOW CREATE TABLE `"+table[0]+"`")[0]
		if n.Flavour == mysqld.MySQL && table[1] != "VIEW" {
			create[1] = collations.ReplaceAllString(create[1], "")
		}
		add("%s", create[1])
		if table[1] == "VIEW" {
			continue
		}
		for _, row := range n.rows(t, db, table[0], create[1]) {
			add("%s: %s", table[0], row)
		}
	}
	for _, list := range []string{
		"SELECT 'column', c.table_name, c.column_name, c.collation_name FROM information_schema.columns c JOIN " +
			"information_schema.tables t USING (table_schema, table_name) WHERE table_schema = DATABASE() AND " +
			"t.table_type <> 'VIEW' AND c.collation_name IS NOT NULL ORDER BY c.table_name, c.ordinal_position",
		"SELECT 'trigger', trigger_name, event_manipulation, event_object_table, action_statement, action_timing, sql_mode, " +
			"character_set_client, collation_connection, database_collation FROM information_schema.triggers WHERE " +
			"trigger_schema = DATABASE() ORDER BY action_timing, event_manipulation, event_object_table, action_order",
		"SELECT 'routine', routine_name, routine_type, dtd_identifier, routine_definition, is_deterministic, " +
			"security_type, sql_mode, routine_comment, character_set_client, collation_connection, database_collation FROM " +
			"information_schema.routines WHERE routine_schema = DATABASE() ORDER BY routine_name",
		servers.Parameters,
		"SELECT 'event', event_name, time_zone, event_definition, event_type, execute_at, interval_value, interval_field, " +
			"sql_mode, starts, ends, status, on_completion, event_comment, character_set_client, collation_connection, " +
			"database_collation FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY event_name",
		"SELECT 'view', table_name, character_set_client, collation_connection FROM information_schema.views WHERE " +
			"table_schema = DATABASE() ORDER BY table_name",
		"SELECT 'database', default_character_set_name, default_collation_name FROM information_schema.schemata WHERE " +
			"schema_name = DATABASE()",
	} {
		for _, row := range query(t, db, list) {
			add("%q", row)
		}
	}
	return all
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

// rows returns the rows of a table, with history and hidden columns.
func (n tenant) rows(t *testing.T, db *sql.DB, table, create string) (all []string) {
	var columns []string
	for _, column := range query(t, db, "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() "+
		"AND table_name = '"+table+"' ORDER BY ordinal_position") {
		columns = append(columns, "`"+column[0]+"`")
	}
	from := " FROM `" + table + "`"
	if strings.Contains(create, "WITH SYSTEM VERSIONING") {
		from += " FOR SYSTEM_TIME ALL"
		if !strings.Contains(create, "PERIOD FOR SYSTEM_TIME") {
			columns = append(columns, "ROW_START", "ROW_END")
		}
	}
	for _, row := range query(t, db, "SELECT "+strings.Join(columns, ", ")+from) {
		for i := range row {
			if strings.ContainsFunc(row[i], func(r rune) bool { return r < ' ' || r > 'z' }) {
				row[i] = "x'" + hex.EncodeToString([]byte(row[i])) + "'"
			}
		}
		all = append(all, strings.Join(row, ", "))
	}
	slices.Sort(all)
	return all
}

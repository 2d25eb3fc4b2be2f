package transfer_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/transfer"
	"mysql-broker/test/compare"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// fixture is two databases of one server, and accounts as the broker makes them for a copy.
type fixture struct {
	t       *testing.T
	root    *sql.DB
	there   *sql.DB   // root of the target's server
	source  *sql.Conn // of root, in the source
	copied  *sql.Conn // of root, in the target
	from    transfer.Source
	to      transfer.Target
	reader  string
	owner   string
	mariaDB bool
}

func newFixture(t *testing.T, s servers.MySQL) *fixture { return newFixtureInto(t, s, s) }

func eachServer(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { test(t, newFixture(t, s)) })
}

// newFixtureInto is a fixture whose target is on another server.
func newFixtureInto(t *testing.T, s, into servers.MySQL) *fixture {
	id := strings.ToLower(rand.Text()[:16])
	f := &fixture{t: t, reader: "u_r" + id, owner: "u_o" + id, mariaDB: s.Flavour == "mariadb"}
	from, to := "db_s"+id, "db_t"+id
	f.root, f.there = f.login(s, s.User, s.Password, ""), f.login(into, into.User, into.Password, "")
	password := rand.Text()
	f.exec(f.root, "CREATE DATABASE "+from+" CHARACTER SET latin1 COLLATE latin1_german2_ci",
		"CREATE USER "+f.reader+" IDENTIFIED BY '"+password+"'",
		"GRANT SELECT, SHOW VIEW, LOCK TABLES ON "+from+".* TO "+f.reader)
	f.exec(f.there, "CREATE DATABASE "+to+" CHARACTER SET utf8mb4", "CREATE USER "+f.owner+" IDENTIFIED BY '"+password+"'",
		"GRANT ALL ON "+to+".* TO "+f.owner)
	t.Cleanup(func() {
		for statement, on := range map[string]*sql.DB{"DROP DATABASE " + from: f.root, "DROP DATABASE " + to: f.there,
			"DROP USER " + f.reader: f.root, "DROP USER " + f.owner: f.there} {
			_, err := on.ExecContext(context.Background(), statement)
			assert.NoError(t, err, statement)
		}
	})
	f.source, f.copied = f.conn(f.root, from), f.conn(f.there, to)
	f.from = transfer.Source{Rows: f.login(s, f.reader, password, from), Programs: f.login(s, s.User, s.Password, from),
		Database: from}
	f.to = transfer.Target{DB: f.login(into, f.owner, password, to), Database: to}
	return f
}

func (f *fixture) login(s servers.MySQL, user, password, database string) *sql.DB {
	cfg := testdrive.Credentials{}.Login(f.t, user, password, s.Address(), database)
	cfg.TLSConfig = "skip-verify"
	return testdrive.Connect(f.t, cfg)
}

func (f *fixture) conn(root *sql.DB, database string) *sql.Conn {
	conn, err := root.Conn(f.t.Context())
	f.must(err)
	f.t.Cleanup(func() { _ = conn.Close() })
	f.exec(conn, "USE "+database, "SET SESSION sql_mode = '', time_zone = '+00:00', foreign_key_checks = 0")
	return conn
}

func (f *fixture) must(err error) { require.NoError(f.t, err) }

func (f *fixture) exec(on testdrive.Execer, statements ...string) {
	testdrive.Exec(f.t, on, statements...)
}

// all returns the rows of a query, one line each.
func (f *fixture) all(on *sql.Conn, query string) (lines []string) {
	rows, err := on.QueryContext(f.t.Context(), query)
	require.NoError(f.t, err, query)
	defer rows.Close()
	columns, err := rows.Columns()
	f.must(err)
	values, into := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for n := range values {
		into[n] = &values[n]
	}
	for rows.Next() {
		f.must(rows.Scan(into...))
		line := ""
		for n, v := range values {
			if v.Valid {
				line += fmt.Sprintf("%s=%q ", columns[n], v.String)
			}
		}
		lines = append(lines, line)
	}
	f.must(rows.Err())
	return lines
}

// expectSame compares the result of a query on both sides.
func (f *fixture) expectSame(query string) {
	want := f.all(f.source, query)
	assert.NotEmpty(f.t, want, "%s: nothing to compare", query)
	assert.Equal(f.t, want, f.all(f.copied, query), query)
}

// expectCopied expects that the copy has all that the source has, but for some programs and views.
func (f *fixture) expectCopied(but ...string) {
	f.t.Helper()
	describe := func(db *sql.DB, database string) compare.Facts {
		facts, err := compare.Describe(f.t.Context(), compare.Side{DB: db, Database: database})
		f.must(err)
		return facts
	}
	differences := compare.Diff(describe(f.root, f.from.Database), describe(f.there, f.to.Database))
	assert.Empty(f.t, slices.DeleteFunc(differences, func(d compare.Difference) bool {
		return slices.ContainsFunc(but, func(program string) bool { return strings.HasSuffix(program, " "+d.Object) })
	}))
}

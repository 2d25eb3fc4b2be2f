package mysqladmin_test

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/audit"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// fixture is a server, a session on it and a database that goes when the test ends.
type fixture struct {
	t        *testing.T
	config   mysqladmin.Config
	server   *mysqladmin.Server
	session  *mysqladmin.Session
	root     *sql.DB // looks behind the package's back
	database string
}

// onEachServer runs a test in parallel on every flavour.
func onEachServer(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { test(t, newFixture(t, s)) })
}

// onEachLaxServer is onEachServer with servers that still allow other engines.
func onEachLaxServer(t *testing.T, test func(t *testing.T, f *fixture)) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) { test(t, newFixture(t, lax(t, s))) })
}

func lax(t *testing.T, s servers.MySQL) servers.MySQL {
	if s.Flavour == "mariadb" { // where createMyISAM suffices
		return s
	}
	return testdrive.PrivateWith(t, s.Flavour, "disabled_storage_engines=")
}

// createMyISAM makes a table on a lax server.
func (f *fixture) createMyISAM(table, columns string) {
	statement := fmt.Sprintf("CREATE TABLE `%s`.%s (%s) ENGINE=MyISAM", f.database, table, columns)
	if f.config.Name == "mariadb" {
		statement = "SET STATEMENT enforce_storage_engine = NULL FOR " + statement
	}
	f.exec(f.root, statement)
}

func newFixture(t *testing.T, s servers.MySQL) *fixture {
	f := &fixture{t: t, database: uniqueName("db_"), config: mysqladmin.Config{
		Name: s.Flavour, Addr: s.Address(), User: s.BrokerUser, Password: s.BrokerPassword}}
	if s.CA != "" {
		f.config.CA = []byte(s.CA)
	}
	f.server = f.open(f.config)
	f.root = f.login(s.User, s.Password, "")
	f.session = f.lock(f.database, leaseHolds)
	t.Cleanup(f.dropAll)
	f.must(f.session.Databases.Create(t.Context(), f.database, "", ""))
	return f
}

// open opens a server until the test ends.
func (f *fixture) open(cfg mysqladmin.Config) *mysqladmin.Server {
	server, err := mysqladmin.Open(cfg)
	f.must(err)
	f.t.Cleanup(func() { f.must(server.Close()) })
	return server
}

func leaseHolds() error { return nil }

// dropAll removes the database and every account that was granted something on it.
func (f *fixture) dropAll() {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	session, err := f.server.Lock(ctx, f.database, leaseHolds)
	f.must(err)
	defer func() { f.must(session.Close()) }()
	pattern := strings.ReplaceAll(f.database, "_", `\_`)
	accounts := f.strings(ctx, "SELECT user FROM mysql.db WHERE db = ?", pattern)
	f.must(session.Databases.Drop(ctx, f.database))
	for _, account := range accounts {
		f.must(session.Accounts.Drop(ctx, account))
	}
}

func (f *fixture) lock(key string, alive func() error) *mysqladmin.Session {
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	session, err := f.server.Lock(ctx, key, alive)
	f.must(err)
	f.t.Cleanup(func() { f.must(session.Close()) })
	return session
}

// account makes an account of that role on the fixture's database.
func (f *fixture) account(role plan.Role) mysqladmin.Account {
	a := mysqladmin.Account{Name: uniqueName("u_"), Password: rand.Text(), Database: f.database, Role: role,
		MaxConnections: 5, Events: true}
	f.must(f.session.Accounts.Create(f.t.Context(), a))
	return a
}

// login opens a pool as an application would.
func (f *fixture) login(user, password, database string) *sql.DB {
	cfg := testdrive.Credentials{}.Login(f.t, user, password, f.config.Addr, database)
	cfg.InterpolateParams = true
	return testdrive.Connect(f.t, cfg)
}

func (f *fixture) loginAs(a mysqladmin.Account) *sql.DB {
	return f.login(a.Name, a.Password, a.Database)
}

func (f *fixture) must(err error) { require.NoError(f.t, err) }

// configFor is the configuration of a broker with another account.
func (f *fixture) configFor(user, password string) mysqladmin.Config {
	cfg := f.config
	cfg.User, cfg.Password = user, password
	return cfg
}

// finally has root run a statement when the test ends.
func (f *fixture) finally(statement string) {
	f.t.Cleanup(func() {
		_, err := f.root.ExecContext(context.Background(), statement)
		f.must(err)
	})
}

func (f *fixture) expectDatabase(name string, want bool) {
	found, err := f.server.DatabaseExists(f.t.Context(), name)
	f.must(err)
	assert.Equal(f.t, want, found, "%s exists", name)
}

// strings returns the first column of a query, run by root.
func (f *fixture) strings(ctx context.Context, query string, args ...any) []string {
	all, err := audit.Column(ctx, f.root, query, args...)
	f.must(err)
	return all
}

// running waits until the account executes a statement that matches.
func (f *fixture) running(account, statement string) {
	testdrive.AwaitTrue(f.t, f.root, `SELECT COUNT(*) > 0 FROM information_schema.processlist
		WHERE user = ? AND info LIKE ?`, account, statement)
}

// exec runs statements in turn, all of which must succeed.
func (f *fixture) exec(db testdrive.Execer, statements ...string) {
	testdrive.Exec(f.t, db, statements...)
}

// refused runs statements each of which the server must refuse.
func (f *fixture) refused(db testdrive.Execer, statements ...string) {
	for _, statement := range statements {
		_, err := db.ExecContext(f.t.Context(), statement)
		assert.NotContains(f.t, []uint16{0, 1064}, testdrive.ErrorNumber(err), "%s: %v, want a refusal", statement, err)
	}
}

func uniqueName(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }

package mysqladmin_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

func TestCreateDatabaseCharsets(t *testing.T) {
	cases := []struct{ charset, collation, want string }{
		{"", "", "utf8mb4 utf8mb4_"}, // and the server's default collation
		{"latin1", "", "latin1 latin1_swedish_ci"},
		{"utf8mb4", "utf8mb4_bin", "utf8mb4 utf8mb4_bin"},
		{"", "utf8mb4_bin", "utf8mb4 utf8mb4_bin"},
		{"", "latin1_bin", "latin1 latin1_bin"},
	}
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, c := range cases {
			f.must(f.server.Setup.ValidateCharset(t.Context(), c.charset, c.collation))
			f.must(f.session.Databases.Drop(t.Context(), f.database))
			for range 2 {
				f.must(f.session.Databases.Create(t.Context(), f.database, c.charset, c.collation))
			}
			got := f.strings(t.Context(), `SELECT CONCAT(default_character_set_name, ' ', default_collation_name)
				FROM information_schema.schemata WHERE schema_name = ?`, f.database)
			assert.True(t, len(got) == 1 && strings.HasPrefix(got[0], c.want), "%+v: got %v", c, got)
		}
	})
}

func TestDropDatabaseDoesNotWaitForOpenTransactions(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		f.exec(f.loginAs(a), "CREATE TABLE t (id INT)")
		for _, useDatabase := range []string{f.database, ""} {
			conn, err := f.login(a.Name, a.Password, useDatabase).Conn(t.Context())
			f.must(err)
			f.exec(conn, "START TRANSACTION", "INSERT INTO `"+f.database+"`.t VALUES (1)")
		}
		for range 2 {
			f.must(f.session.Databases.Drop(t.Context(), f.database))
		}
		f.expectDatabase(f.database, false)
	})
}

func TestDropDatabaseNamesPreparedTransactionsInItsWay(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.exec(f.root, "CREATE TABLE `"+f.database+"`.t (id INT)")
		global := uniqueName("g'\\")
		xid := fmt.Sprintf("X'%x',X'%x',7", global, "branch")
		client := f.login(f.config.User, f.config.Password, f.database)
		conn, err := client.Conn(t.Context())
		f.must(err)
		f.exec(conn, "XA START "+xid, "INSERT INTO t VALUES (1)", "XA END "+xid, "XA PREPARE "+xid)
		f.must(conn.Close())
		f.must(client.Close())
		err = f.session.Databases.Drop(t.Context(), f.database)
		assert.True(t, err != nil && strings.Contains(err.Error(), xid) && mysqladmin.Unreachable(err),
			"error %v, want one that names %s and counts as an outage", err, xid)
		f.exec(f.root, "XA ROLLBACK "+xid)
		f.must(f.session.Databases.Drop(t.Context(), f.database))
	})
}

// A drop goes on after a session could not be killed: the next attempt may not need that.
func TestDropDatabaseAfterAKillThatFails(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		f.exec(f.loginAs(a), "CREATE TABLE t (id INT)")
		conn, err := f.login(a.Name, a.Password, f.database).Conn(t.Context())
		f.must(err)
		f.exec(conn, "START TRANSACTION", "INSERT INTO t VALUES (1)")
		statements := 0
		session := f.lock(uniqueName("task_"), func() error {
			if statements++; statements == 3 { // after that of the lock and the first attempt
				f.exec(conn, "ROLLBACK")
				return errors.New("no kill")
			}
			return nil
		})
		f.must(session.Databases.Drop(t.Context(), f.database))
		assert.Greater(t, statements, 3, "there was a kill")
		f.expectDatabase(f.database, false)
	})
}

// On MySQL, a tenant can make its database read-only, which prevents a drop. If it does that again and again, the drop
// fails.
func TestDropDatabaseThatIsReadOnly(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		can := f.config.Name == "mysql"
		err := testdrive.ErrorOf(t, f.loginAs(f.account(plan.ReadWrite)), "ALTER DATABASE `"+f.database+"` READ ONLY = 1")
		assert.Equal(t, can, err == nil, "%v", err)
		readOnly, err := f.server.ReadOnly(t.Context(), f.database)
		f.must(err)
		assert.Equal(t, can, readOnly, "the database is read-only")
		if can {
			f.must(f.session.Databases.SetReadOnly(t.Context(), f.database, false))
			f.exec(f.root, "CREATE TABLE `"+f.database+"`.t (id INT PRIMARY KEY)")
			f.must(f.session.Databases.SetReadOnly(t.Context(), f.database, true))
			again := f.lock(uniqueName("task_"), func() error {
				f.exec(f.root, "ALTER DATABASE `"+f.database+"` READ ONLY = 1")
				return nil
			})
			assert.ErrorContains(t, again.Databases.Drop(t.Context(), f.database), "read only")
		}
		f.must(f.session.Databases.Drop(t.Context(), f.database))
	})
}

// MariaDB refuses the option: see TestHostileTenant.
func TestDatabaseSizeCountsTablesInASharedTablespace(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		if f.config.Name == "mariadb" {
			return
		}
		f.exec(f.loginAs(f.account(plan.ReadWrite)), "CREATE TABLE s (b LONGBLOB) TABLESPACE=innodb_system",
			"INSERT INTO s VALUES (REPEAT('x', 1 << 20))", "ANALYZE TABLE s")
		f.expectSize(f.database, 1<<20, 2<<20)
	})
}

// A database of many tables is measured before the server ends the query, which took as long as the square of their
// number.
func TestDatabaseSizeOfManyTables(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		if f.config.Name == "mysql" { // which has no limit for the query
			return
		}
		const tables = 600
		db := f.loginAs(f.account(plan.ReadWrite))
		for n := range tables {
			f.exec(db, fmt.Sprintf("CREATE TABLE `t-%d` (id INT)", n))
		}
		f.expectSize(f.database, tables<<14, tables<<18)
		_, _, all, err := f.server.Sizes.LargestTables(t.Context(), f.database, 1)
		assert.True(t, err == nil && all == tables, "%d tables: %v", all, err)
	})
}

func (f *fixture) expectSize(database string, least, most int64) {
	size, err := f.server.Sizes.Of(f.t.Context(), database)
	f.must(err)
	assert.True(f.t, least <= size.Files && size.Files <= most, "size of %s: %+v, want %d to %d", database, size,
		least, most)
}

// A database is dropped only if it is empty.
func TestDropEmptyDatabase(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, made := range []struct{ kind, statement string }{
			{"TABLE", "CREATE TABLE %.x (n INT)"},
			{"VIEW", "CREATE VIEW %.x AS SELECT 1 AS n"},
			{"PROCEDURE", "CREATE PROCEDURE %.x() SELECT 1"},
			{"FUNCTION", "CREATE FUNCTION %.x() RETURNS INT DETERMINISTIC RETURN 1"},
			{"EVENT", "CREATE EVENT %.x ON SCHEDULE EVERY 1 DAY DO SELECT 1"},
		} {
			f.exec(f.root, strings.Replace(made.statement, "%", "`"+f.database+"`", 1))
			assert.ErrorIs(t, f.session.Databases.DropEmpty(t.Context(), f.database), mysqladmin.ErrHoldsData,
				"with a %s", made.kind)
			holds, err := f.server.HoldsData(t.Context(), f.database)
			assert.True(t, holds && err == nil, "with a %s, it holds data: %t, %v", made.kind, holds, err)
			f.exec(f.root, "DROP "+made.kind+" `"+f.database+"`.x")
		}
		for range 2 { // the second time, it is missing
			f.must(f.session.Databases.DropEmpty(t.Context(), f.database))
		}
		f.expectDatabase(f.database, false)
	})
}

// A server knows by itself which databases a task had begun to fill, or to fill with other data. What is recorded of a
// mixture goes with its database.
func TestMarkedDatabases(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, begun := range []bool{true, false} {
			if begun {
				f.must(f.session.Databases.MarkUnfinished(t.Context(), f.database))
				f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_1"))
				f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_2"))
			} else {
				f.must(f.session.Databases.MarkFinished(t.Context(), f.database))
				f.must(f.session.Databases.EndMixture(t.Context(), f.database))
			}
			unfinished, err := f.server.UnfinishedDatabases(t.Context())
			f.must(err)
			assert.Equal(t, begun, slices.Contains(unfinished, f.database),
				"begun: %t, the unfinished databases are %q", begun, unfinished)
			mixed, err := f.server.Mixtures(t.Context())
			f.must(err)
			backup, is := mixed[f.database]
			assert.False(t, is != begun || is && backup != "b_2", "begun: %t, the mixtures are %q", begun, mixed)
		}
		f.must(f.session.Databases.MarkMixture(t.Context(), f.database, "b_1"))
		f.must(f.session.Databases.Drop(t.Context(), f.database))
		mixed, err := f.server.Mixtures(t.Context())
		f.must(err)
		assert.NotContains(t, mixed, f.database, "a database that does not exist")
	})
}

// What arrives on a server is listed there until it leaves.
func TestListedInstances(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.must(f.server.Marks.WriteMark(t.Context(), f.database, mysqladmin.Mark{TaskID: 1, TaskAt: time.Now()}))
		listed := mysqladmin.ListedInstance{Database: f.database, About: "{}"}
		f.must(f.server.Marks.ListInstances(t.Context(), f.database, []mysqladmin.ListedInstance{listed}))
		for _, want := range []int{1, 0} {
			all, err := f.server.Marks.ListedInstances(t.Context(), f.database)
			assert.True(t, err == nil && len(all) == want, "listed are %+v, %v; want %d", all, err, want)
			f.must(f.server.Marks.Unlist(t.Context(), f.database, f.database))
		}
	})
}

// A server counts the seconds of the clock that have begun since it started, so that what ended it just before might seem
// to have happened since.
func TestUptimeIsNoLongerThanTheServerRuns(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	f := newFixture(t, testdrive.Private(t, "mariadb"))
	for up := time.Duration(0); up < 2*time.Second; {
		var err error
		_, up, err = f.server.Uptime(t.Context())
		f.must(err)
		require.LessOrEqual(t, up, time.Since(begun))
	}
}

// A node that is away does not keep a database from being copied. Only that node knows which of the events it runs that
// are disabled on the others.
func TestRunningEventsWithoutANode(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		away := fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(t))
		read := func(nodes ...string) (running, unknown []string, err error) {
			cfg := f.config
			cfg.Nodes = nodes
			server := f.open(cfg)
			return server.RunningEvents(t.Context(), f.database)
		}
		running, unknown, err := read(f.config.Addr, away)
		assert.True(t, err == nil && len(running) == 0 && len(unknown) == 0,
			"without events, these run: %q, and perhaps %q, %v", running, unknown, err)
		running, unknown, err = read(away)
		assert.True(t, mysqladmin.CannotReach(err),
			"if no node answers, these run: %q, and perhaps %q, %v", running, unknown, err)
		for name, status := range map[string]string{"here": "ENABLE", "off": "DISABLE", "elsewhere": "DISABLE ON SLAVE"} {
			f.exec(f.root, fmt.Sprintf("CREATE EVENT `%s`.%s ON SCHEDULE EVERY 1 YEAR STARTS '2037-01-01' %s DO DO 1",
				f.database, name, status))
		}
		for what, test := range map[string]struct{ nodes, unknown []string }{
			"all nodes":   {[]string{f.config.Addr}, nil},
			"one is away": {[]string{away, f.config.Addr}, []string{"elsewhere"}},
		} {
			running, unknown, err := read(test.nodes...)
			assert.True(t, err == nil && slices.Equal(running, []string{"here"}) && slices.Equal(unknown, test.unknown),
				"%s: these events run: %q, and perhaps %q, %v", what, running, unknown, err)
		}
	})
}

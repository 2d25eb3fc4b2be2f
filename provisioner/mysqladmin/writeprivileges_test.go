package mysqladmin_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Statements that add data, one for each write privilege, and statements that do not. They run after fill.
var (
	grows = []string{
		"INSERT INTO t VALUES (9, 9)", "REPLACE INTO t VALUES (1, 9)", "UPDATE t SET x = 9", "CREATE TABLE t2 (id INT)",
		"CREATE TABLE t3 LIKE t", "ALTER TABLE t ADD COLUMN y INT", "CREATE INDEX i2 ON t (x)", "OPTIMIZE TABLE t",
		"CREATE TEMPORARY TABLE tmp (id INT)", "CREATE VIEW v2 AS SELECT 1", "CREATE PROCEDURE p2() SELECT 1",
		"CREATE FUNCTION f2() RETURNS INT DETERMINISTIC RETURN 1", "RENAME TABLE t TO t4",
		"CALL grow()", "CREATE TRIGGER tr2 BEFORE DELETE ON t FOR EACH ROW SET @x = 1", "DROP TRIGGER tr",
		"CREATE EVENT e2 ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", "DROP EVENT e",
		"CREATE TABLE fk (t INT, FOREIGN KEY (t) REFERENCES t (id))",
	}
	remains = []string{
		"SELECT * FROM t", "SELECT * FROM v", "SHOW CREATE VIEW v", "SHOW CREATE TABLE t", "LOCK TABLES t READ",
		"UNLOCK TABLES", "DELETE FROM t WHERE id = 1", "CALL shrink()", "TRUNCATE t", "DROP PROCEDURE grow",
		"DROP PROCEDURE shrink", "DROP VIEW v", "DROP TABLE t",
	}
)

// fill makes one object of each kind. The event does not begin now: RemovePrivileges would end its session, and
// MariaDB keeps a trigger unreadable when a session is killed at the moment in which it opens the table.
func (f *fixture) fill(db testdrive.Execer) {
	f.exec(db, "CREATE TABLE t (id INT PRIMARY KEY, x INT)", "INSERT INTO t VALUES (1, 1), (2, 2)",
		"CREATE VIEW v AS SELECT id FROM t", "CREATE PROCEDURE grow() INSERT INTO t VALUES (3, 3)",
		"CREATE PROCEDURE shrink() DELETE FROM t WHERE id = 2",
		"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.x = 1",
		"CREATE EVENT e ON SCHEDULE AT NOW() + INTERVAL 1 DAY DO INSERT INTO t VALUES (4, 4)")
}

func (f *fixture) connect(a mysqladmin.Account) *sql.Conn {
	conn, err := f.loginAs(a).Conn(f.t.Context())
	f.must(err)
	f.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRestrictedAccountsReadAndRemove(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, role := range everyRole[1:] {
			a := f.account(role)
			f.fill(f.connect(a))
			f.must(f.session.Writes.Freeze(t.Context(), a.Name, role, true, f.database)) // they may have been frozen
			f.refused(f.connect(a), "DELETE FROM t WHERE id = 1", "DROP VIEW v")
			f.expectFrozen(a.Name, true)
			f.must(f.session.Writes.RemovePrivileges(t.Context(), a.Name, role, f.database))
			f.expectFrozen(a.Name, false)
			conn := f.connect(a)
			f.refused(conn, grows...)
			f.exec(conn, remains...)
			f.refused(conn, "CREATE TABLE t (id INT)")

			f.must(f.session.Writes.RestorePrivileges(t.Context(), a.Name, role, true, f.database))
			conn = f.connect(a)
			f.exec(conn, "DROP EVENT e")
			f.fill(conn)
			f.exec(conn, "UPDATE t SET x = 9", "ALTER TABLE t ADD COLUMN y INT", "DROP TABLE t", "DROP PROCEDURE grow",
				"DROP PROCEDURE shrink", "DROP VIEW v", "DROP EVENT e")
		}
	})
}

func (f *fixture) expectFrozen(account string, frozen bool) {
	all, err := f.server.Grants(f.t.Context())
	f.must(err)
	for _, g := range all {
		assert.False(f.t, g.Account == account && g.Frozen() != frozen, "%s is frozen: %t", account, g.Frozen())
	}
}

// privileges returns the privileges on databases.
func (f *fixture) privileges(account string) string {
	return f.strings(f.t.Context(), `SELECT COALESCE(GROUP_CONCAT(privilege_type ORDER BY privilege_type), '')
		FROM information_schema.schema_privileges WHERE grantee = CONCAT("'", ?, "'@'%'")`, account)[0]
}

// Idle sessions are ended, so that they reconnect with their privileges; sessions with a transaction are not. The
// server is private because InnoDB updates its list of transactions only while nobody else reads it.
func TestReleaseEndsIdleSessions(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		a := f.account(plan.ReadWrite)
		f.exec(f.connect(a), "CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1), (2)")
		f.must(f.session.Writes.RemovePrivileges(t.Context(), a.Name, a.Role, f.database))
		idle, deleting, sleeping, trying := f.connect(a), f.connect(a), f.connect(a), f.connect(a)
		f.exec(idle, "SELECT 1")
		f.exec(deleting, "START TRANSACTION", "DELETE FROM t WHERE id = 1")
		slept := make(chan error, 1)
		go func() {
			_, err := sleeping.ExecContext(context.Background(), "SELECT SLEEP(2)")
			slept <- err
		}()
		tried := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
			defer cancel()
			for {
				if _, err := trying.ExecContext(ctx, "INSERT INTO t VALUES (9)"); testdrive.ErrorNumber(err) != 1142 {
					tried <- err
					return
				}
				time.Sleep(100 * time.Millisecond) // in which it is idle, at one of RestorePrivileges's looks at least
			}
		}()
		f.running(a.Name, "SELECT SLEEP%")
		f.must(f.session.Writes.RestorePrivileges(t.Context(), a.Name, a.Role, true, f.database))
		_, err := idle.ExecContext(t.Context(), "SELECT 1")
		assert.Error(t, err, "an idle session goes on without its privileges")
		err = <-tried
		assert.False(t, err == nil || errors.Is(err, context.DeadlineExceeded),
			"a session that tries again and again: %v, want its connection lost", err)
		f.exec(deleting, "COMMIT")
		f.must(<-slept)
		f.exec(f.connect(a), "INSERT INTO t VALUES (3)")
	})
}

func TestWritePrivilegesOfNobody(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		nobody := uniqueName("u_")
		f.must(f.session.Writes.RemovePrivileges(t.Context(), nobody, plan.ReadWrite, f.database))
		f.must(f.session.Writes.RestorePrivileges(t.Context(), nobody, plan.ReadWrite, true, f.database))
		f.expectAccount(nobody, false)
	})
}

// Tables outside InnoDB have no tablespace, and MySQL lets a tenant put those of InnoDB into a shared one.
func TestAllDatabasesAreMeasuredAtOnce(t *testing.T) {
	onEachLaxServer(t, func(t *testing.T, f *fixture) {
		empty := uniqueName("db_")
		f.must(f.session.Databases.Create(t.Context(), empty, "", ""))
		t.Cleanup(func() { f.must(f.session.Databases.Drop(context.Background(), empty)) })
		db := f.loginAs(f.account(plan.ReadWrite))
		f.expectSize(f.database, 0, 0)
		f.exec(db, "CREATE TABLE p (id INT) PARTITION BY HASH (id) PARTITIONS 2", "CREATE TABLE `a#p-b` (b LONGBLOB)")
		f.expectSize(f.database, 3<<14, 1<<20)
		f.exec(db, fmt.Sprintf("INSERT INTO `a#p-b` VALUES (REPEAT('x', %d))", 4<<20))
		f.expectSize(f.database, 4<<20, 16<<20)
		f.expectSize(f.database[:len(f.database)-1], 0, 0)
		exact, err := f.server.Sizes.Of(t.Context(), f.database)
		f.must(err)
		f.expectMeasured(map[string]int64{f.database: exact.Files, empty: 0}, nil)
		fast, err := f.server.Sizes.OfFiles(t.Context(), f.database, exact.Files-f.programs())
		assert.True(t, err == nil && fast == exact, "without a scan: %+v instead of %+v, %v", fast, exact, err)

		f.createMyISAM("m", "b LONGBLOB")
		for i := range int64(3) {
			f.expectSize(f.database, exact.Files+i<<20, exact.Files+(i+1)<<20)
			f.exec(db, fmt.Sprintf("INSERT INTO m VALUES (REPEAT('x', %d))", 1<<20))
		}
		all, err := f.server.Sizes.Of(t.Context(), f.database)
		f.must(err)
		f.expectMeasured(map[string]int64{f.database: exact.Files}, map[string]int64{f.database: all.Files - exact.Files})
	})
}

// CREATE TABLE … SELECT locks its table while it runs, which a tenant can make last for ever. Measuring must not wait
// for such locks.
func TestTablesInTheMakingDelayNoMeasurement(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		f.exec(f.connect(a), "CREATE TABLE t (b LONGBLOB)", fmt.Sprintf("INSERT INTO t VALUES (REPEAT('x', %d))", 4<<20))
		before, err := f.server.Sizes.Of(t.Context(), f.database)
		f.must(err)
		ended := make(chan error)
		const held = 4
		for n := range held {
			conn := f.connect(a)
			go func() {
				_, err := conn.ExecContext(context.Background(), fmt.Sprintf("CREATE TABLE held%d AS SELECT SLEEP(600)", n))
				ended <- err
			}()
			f.running(a.Name, fmt.Sprintf("CREATE TABLE held%d%%", n))
		}
		size, took := f.timeMeasurement()
		const waiting = 2 * held * time.Second // the broker waits for a lock for 2 s
		for tries := 1; took > waiting && tries < 3; tries++ {
			size, took = f.timeMeasurement() // who waits does so each time; a server is sometimes busy with other tests
		}
		assert.True(t, took <= waiting, "measuring took %v", took)
		assert.True(t, size.Files >= before.Files, "%+v instead of at least %+v", size, before)
		f.must(f.session.Writes.RemovePrivileges(t.Context(), a.Name, a.Role, f.database)) // ends them
		for range held {
			assert.Error(t, <-ended, "a table in the making was made: did it keep anybody waiting?")
		}
	})
}

// timeMeasurement measures the fixture's database and all other tables, and how long that takes.
func (f *fixture) timeMeasurement() (size mysqladmin.Size, took time.Duration) {
	since := time.Now()
	size, err := f.server.Sizes.Of(f.t.Context(), f.database)
	f.must(err)
	_, err = f.server.Sizes.OtherTables(f.t.Context())
	f.must(err)
	return size, time.Since(since)
}

// expectMeasured looks at these databases, and at the fixture's own among those with other tables.
func (f *fixture) expectMeasured(files, others map[string]int64) {
	measured, err := f.server.Sizes.Files(f.t.Context())
	f.must(err)
	assert.Subset(f.t, measured, files)
	assert.NotContains(f.t, measured, "mysql", "the server's own database")
	other, err := f.server.Sizes.OtherTables(f.t.Context())
	f.must(err)
	assert.Equal(f.t, others[f.database], other[f.database], "bytes of other tables")
}

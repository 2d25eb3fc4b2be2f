package mysqladmin_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// hostileSettings are smaller than those shipped, so that an attack meets them sooner.
var hostileSettings = map[string][]string{
	"mysql": {"innodb_open_files=300", "innodb_data_file_path=ibdata1:12M:autoextend:max:24M"},
	"mariadb": {"partition=OFF", "innodb_open_files=300",
		"innodb_temp_data_file_path=ibtmp1:12M:autoextend:max:24M"},
}

// hostileConnections is how many connections a hostile tenant may have: as many as plan shared-small allows.
const hostileConnections = 30

// TestHostileTenant exhausts a shared server's resources as a tenant. Other tenants continue, and the broker can remove
// the hostile one.
func TestHostileTenant(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.PrivateWith(t, s.Flavour, hostileSettings[s.Flavour]...)
		peer := newFixture(t, private)
		db := peer.loginAs(peer.account(plan.ReadWrite))
		peer.exec(db, "CREATE TABLE kept (id INT AUTO_INCREMENT PRIMARY KEY, content VARCHAR(100))")
		for _, attack := range []struct {
			name string
			run  func(*fixture, mysqladmin.Account)
		}{
			{"files of partitions", openPartitions}, {"handlers of a table", openHandlers},
			{"prepared statements", prepareStatements}, {"temporary tables", fillTemporaryTables},
			{"system tablespace", fillSystemTablespace},
		} {
			t.Run(attack.name, func(t *testing.T) {
				f := newFixture(t, private)
				a := f.account(plan.ReadWrite)
				f.must(f.session.Accounts.SetConnectionLimit(t.Context(), a.Name, hostileConnections))
				attack.run(f, a)
				expectService(t, private, db)
				_, err := f.session.Accounts.Revoke(t.Context(), a.Name, a.Role, f.database)
				f.must(err)
				err = f.loginAs(a).PingContext(t.Context())
				assert.EqualValues(t, 1045, testdrive.ErrorNumber(err), "after its removal, the hostile account: %v", err)
				f.must(f.session.Databases.Drop(t.Context(), f.database))
				expectService(t, private, db)
			})
		}
	})
}

// expectService checks that another tenant and the broker can work as usual.
func expectService(t *testing.T, s servers.MySQL, peer *sql.DB) {
	t.Helper()
	f := newFixture(t, s)
	f.exec(peer, "INSERT INTO kept (content) VALUES ('more')", "CREATE TABLE fresh (id INT PRIMARY KEY)",
		"INSERT INTO fresh VALUES (1)", "DROP TABLE fresh")
	prepared, err := peer.PrepareContext(t.Context(), "SELECT COUNT(*) FROM kept WHERE id > ?")
	require.NoError(t, err, "another tenant prepares a statement")
	f.must(prepared.Close())
	f.exec(f.loginAs(f.account(plan.ReadWrite)), "CREATE TABLE made (id INT PRIMARY KEY)")
}

// refusedWith runs a statement again and again, of which the nth is what statement(n) returns, until the server refuses
// it. It returns how many it took, and the number of the server's error, 0 if all of them were taken.
func (f *fixture) refusedWith(conn *sql.Conn, most int, statement func(n int) string) (taken int, number uint16) {
	f.t.Helper()
	for n := range most {
		_, err := conn.ExecContext(f.t.Context(), statement(n))
		if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) {
			return n, refused.Number
		} else if err != nil {
			f.t.Fatalf("after %d statements: %v", n, err)
		}
	}
	return most, 0
}

// openPartitions opens far more files than InnoDB may have open. MariaDB has no partitions at all: neither those of
// InnoDB nor, by naming the engine of a single partition, of others, which would keep their files open.
func openPartitions(f *fixture, hostile mysqladmin.Account) {
	db := f.loginAs(hostile)
	const parts, tables, handlers = 256, 2, 20
	if f.config.Name == "mariadb" {
		for _, statement := range []string{
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) PARTITIONS 8",
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) (PARTITION p0 ENGINE=MyISAM, PARTITION p1 ENGINE=MyISAM)",
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) (PARTITION p0 ENGINE=MEMORY)",
		} {
			assert.EqualValues(f.t, skipOption, testdrive.RefusalOf(f.t, db, statement), statement)
		}
		return
	}
	for table := range tables {
		f.exec(db, fmt.Sprintf("CREATE TABLE p%d (id INT) PARTITION BY HASH (id) PARTITIONS %d", table, parts))
	}
	conn := f.connect(hostile)
	_, number := f.refusedWith(conn, handlers, func(n int) string {
		return fmt.Sprintf("HANDLER p%d OPEN AS h%d", n%tables, n)
	})
	assert.Zero(f.t, number, "the error of HANDLER … OPEN")
	open := testdrive.Read[int](f.t, f.root, `SELECT VARIABLE_VALUE FROM performance_schema.global_status
		WHERE VARIABLE_NAME = 'Innodb_num_open_files'`)
	const allowed, slack = 300, 50
	assert.LessOrEqual(f.t, open, allowed+slack, "files that InnoDB has open")
	f.t.Logf("%d tables of %d partitions, opened %d times: InnoDB has %d files open", tables, parts, handlers, open)
}

// skipOption is MariaDB's error for what an option has switched off.
const skipOption = 1290

// openHandlers opens one table very often.
func openHandlers(f *fixture, hostile mysqladmin.Account) {
	db := f.loginAs(hostile)
	f.exec(db, "CREATE TABLE one (id INT)")
	const handlers = 2000
	taken, number := f.refusedWith(f.connect(hostile), handlers, func(n int) string {
		return fmt.Sprintf("HANDLER one OPEN AS h%d", n)
	})
	f.t.Logf("%d of %d handlers, error %d", taken, handlers, number)
}

// prepareStatements prepares what the limit of a session's memory lets it. All sessions that an account may have cannot
// take all prepared statements of the server.
func prepareStatements(f *fixture, hostile mysqladmin.Account) {
	all := testdrive.Read[int](f.t, f.root, "SELECT @@GLOBAL.max_prepared_stmt_count")
	const sessions, most = 3, 10_000
	for range sessions {
		conn := f.connect(hostile)
		if f.config.Name == "mariadb" { // where a session may set it, but not beyond the server's maximum
			f.exec(conn, "SET SESSION max_session_mem_used = 1 << 40")
		}
		taken, number := f.refusedWith(conn, most, func(n int) string {
			return fmt.Sprintf("PREPARE s%d FROM 'SELECT 1'", n)
		})
		assert.NotContains(f.t, []uint16{0, noMoreStatements}, number, "the error after %d statements", taken)
		assert.Less(f.t, taken*hostileConnections, all, "statements that all sessions can prepare")
	}
}

// noMoreStatements is the error of a server that has max_prepared_stmt_count prepared statements.
const noMoreStatements = 1461

// tableFull is the error where a tablespace may not grow.
const tableFull = 1114

// fillTemporaryTables fills MariaDB's temporary tablespace. MySQL has one for each session, which ends with it.
func fillTemporaryTables(f *fixture, hostile mysqladmin.Account) {
	conn := f.connect(hostile)
	f.exec(conn, "CREATE TEMPORARY TABLE large (content LONGBLOB)")
	const most = 40
	taken, number := f.refusedWith(conn, most, func(int) string {
		return "INSERT INTO large VALUES (REPEAT('x', 1 << 20))"
	})
	assert.Equal(f.t, map[string]uint16{"mysql": 0, "mariadb": tableFull}[f.config.Name], number,
		"the error after %d MiB in a temporary table", taken)
}

// fillSystemTablespace fills the file that never shrinks, and that tables can be put into on MySQL alone.
func fillSystemTablespace(f *fixture, hostile mysqladmin.Account) {
	db := f.loginAs(hostile)
	_, err := db.ExecContext(f.t.Context(), "CREATE TABLE outside (content LONGBLOB) TABLESPACE=innodb_system")
	if f.config.Name == "mariadb" {
		assert.Error(f.t, err, "MariaDB put a table into the system tablespace")
		return
	}
	f.must(err)
	const most = 40
	taken, number := f.refusedWith(f.connect(hostile), most, func(int) string {
		return "INSERT INTO outside VALUES (REPEAT('x', 1 << 20))"
	})
	assert.EqualValues(f.t, tableFull, number, "the error after %d MiB in the system tablespace", taken)
	size := testdrive.Read[int](f.t, f.root, `SELECT SUM(TOTAL_EXTENTS * EXTENT_SIZE) FROM information_schema.FILES
		WHERE TABLESPACE_NAME = 'innodb_system'`)
	assert.LessOrEqual(f.t, size, 24<<20, "bytes of the system tablespace")
}

package tenants

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// neighbours are tenants of a shared server with the shipped settings, one of which is hostile.
type neighbours struct {
	testdrive.Platform
	peer *sql.DB // the other one's application
}

// hostileSettings are smaller than those shipped, so that an attack meets them sooner.
var hostileSettings = map[string][]string{
	"mysql": {"innodb_open_files=300", "innodb_data_file_path=ibdata1:12M:autoextend:max:24M"},
	"mariadb": {"partition=OFF", "innodb_open_files=300",
		"innodb_temp_data_file_path=ibtmp1:12M:autoextend:max:24M"},
}

// TestHostileTenant exhausts a shared server's resources as a tenant. Other tenants continue, and the broker can remove
// the hostile one.
func TestHostileTenant(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.PrivateWith(t, s.Flavour, hostileSettings[s.Flavour]...)
		p := testdrive.StartPlatform(t, private, testdrive.Environment(t, private))
		_, peer := p.Provisioned(t, "shared-small", nil).Bound(t, nil)
		n := neighbours{p, peer.Open(t)}
		testdrive.Exec(t, n.peer, "CREATE TABLE kept (id INT AUTO_INCREMENT PRIMARY KEY, content VARCHAR(100))")
		for _, attack := range []struct {
			name string
			run  func(*testing.T, neighbours, testdrive.Credentials)
		}{
			{"files of partitions", openPartitions}, {"handlers of a table", openHandlers},
			{"prepared statements", prepareStatements}, {"temporary tables", fillTemporaryTables},
			{"system tablespace", fillSystemTablespace},
		} {
			t.Run(attack.name, func(t *testing.T) {
				i := n.Provisioned(t, "shared-small", nil)
				b, hostile := i.Bound(t, nil)
				attack.run(t, n, hostile)
				n.expectService(t)
				testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
				testdrive.ExpectRefused(t, hostile.Fields(t))
				testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
				n.expectService(t)
			})
		}
	})
}

// expectService checks that the other tenant and platforms can work as usual.
func (n neighbours) expectService(t *testing.T) {
	t.Helper()
	testdrive.Exec(t, n.peer, "INSERT INTO kept (content) VALUES ('more')", "CREATE TABLE fresh (id INT PRIMARY KEY)",
		"INSERT INTO fresh VALUES (1)", "DROP TABLE fresh")
	prepared, err := n.peer.PrepareContext(t.Context(), "SELECT COUNT(*) FROM kept WHERE id > ?")
	if err != nil {
		t.Errorf("another tenant can prepare no statement: %v", err)
		return
	}
	if err := prepared.Close(); err != nil {
		t.Error(err)
	}
	i := n.Provisioned(t, "shared-small", nil)
	_, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE made (id INT PRIMARY KEY)")
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}

// session is one connection of an account, which stays open until the test ends.
func session(t *testing.T, db *sql.DB) *sql.Conn {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// refusedWith runs a statement again and again, of which the nth is what statement(n) returns, until the server refuses
// it. It returns how many it took, and the number of the server's error, 0 if all of them were taken.
func refusedWith(t *testing.T, conn *sql.Conn, most int, statement func(n int) string) (taken int, number uint16) {
	t.Helper()
	for n := range most {
		_, err := conn.ExecContext(t.Context(), statement(n))
		if refused := (*mysql.MySQLError)(nil); errors.As(err, &refused) {
			return n, refused.Number
		} else if err != nil {
			t.Fatalf("after %d statements: %v", n, err)
		}
	}
	return most, 0
}

// openPartitions opens far more files than InnoDB may have open. MariaDB has no partitions at all: neither those of
// InnoDB nor, by naming the engine of a single partition, of others, which would keep their files open.
func openPartitions(t *testing.T, n neighbours, hostile testdrive.Credentials) {
	db := hostile.Open(t)
	const parts, tables, handlers = 256, 2, 20
	if n.Server.Flavour == "mariadb" {
		for _, statement := range []string{
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) PARTITIONS 8",
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) (PARTITION p0 ENGINE=MyISAM, PARTITION p1 ENGINE=MyISAM)",
			"CREATE TABLE p (id INT) PARTITION BY HASH (id) (PARTITION p0 ENGINE=MEMORY)",
		} {
			if number := testdrive.RefusalOf(t, db, statement); number != skipOption {
				t.Errorf("%s: error %d instead of %d", statement, number, skipOption)
			}
		}
		return
	}
	for table := range tables {
		testdrive.Exec(t, db, fmt.Sprintf("CREATE TABLE p%d (id INT) PARTITION BY HASH (id) PARTITIONS %d", table, parts))
	}
	conn := session(t, db)
	if _, number := refusedWith(t, conn, handlers, func(n int) string {
		return fmt.Sprintf("HANDLER p%d OPEN AS h%d", n%tables, n)
	}); number != 0 {
		t.Errorf("HANDLER … OPEN: error %d", number)
	}
	open := testdrive.Read[int](t, n.Admin(t), `SELECT VARIABLE_VALUE FROM performance_schema.global_status
		WHERE VARIABLE_NAME = 'Innodb_num_open_files'`)
	const allowed, slack = 300, 50
	if open > allowed+slack {
		t.Errorf("InnoDB has %d files open instead of about %d", open, allowed)
	}
	t.Logf("%d tables of %d partitions, opened %d times: InnoDB has %d files open", tables, parts, handlers, open)
}

// skipOption is MariaDB's error for what an option has switched off.
const skipOption = 1290

// openHandlers opens one table very often.
func openHandlers(t *testing.T, _ neighbours, hostile testdrive.Credentials) {
	db := hostile.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE one (id INT)")
	const handlers = 2000
	taken, number := refusedWith(t, session(t, db), handlers, func(n int) string {
		return fmt.Sprintf("HANDLER one OPEN AS h%d", n)
	})
	t.Logf("%d of %d handlers, error %d", taken, handlers, number)
}

// prepareStatements prepares what the limit of a session's memory lets it. All sessions that an account may have cannot
// take all prepared statements of the server.
func prepareStatements(t *testing.T, n neighbours, hostile testdrive.Credentials) {
	db := hostile.Open(t)
	admin := n.Admin(t)
	connections := testdrive.Read[int](t, admin, "SELECT max_user_connections FROM mysql.user WHERE user = ?", hostile.Username)
	all := testdrive.Read[int](t, admin, "SELECT @@GLOBAL.max_prepared_stmt_count")
	const sessions, most = 3, 10_000
	for range sessions {
		conn := session(t, db)
		if n.Server.Flavour == "mariadb" { // where a session may set it, but not beyond the server's maximum
			if _, err := conn.ExecContext(t.Context(), "SET SESSION max_session_mem_used = 1 << 40"); err != nil {
				t.Fatal(err)
			}
		}
		taken, number := refusedWith(t, conn, most, func(n int) string {
			return fmt.Sprintf("PREPARE s%d FROM 'SELECT 1'", n)
		})
		if number == 0 || number == noMoreStatements {
			t.Errorf("a session prepared %d statements: error %d", taken, number)
		}
		if taken*connections >= all {
			t.Errorf("%d sessions can prepare %d statements each, the server %d in all", connections, taken, all)
		}
	}
}

// noMoreStatements is the error of a server that has max_prepared_stmt_count prepared statements.
const noMoreStatements = 1461

// tableFull is the error where a tablespace may not grow.
const tableFull = 1114

// fillTemporaryTables fills MariaDB's temporary tablespace. MySQL has one for each session, which ends with it.
func fillTemporaryTables(t *testing.T, n neighbours, hostile testdrive.Credentials) {
	conn := session(t, hostile.Open(t))
	if _, err := conn.ExecContext(t.Context(), "CREATE TEMPORARY TABLE large (content LONGBLOB)"); err != nil {
		t.Fatal(err)
	}
	const most = 40
	taken, number := refusedWith(t, conn, most, func(int) string {
		return "INSERT INTO large VALUES (REPEAT('x', 1 << 20))"
	})
	if want := map[string]uint16{"mysql": 0, "mariadb": tableFull}[n.Server.Flavour]; number != want {
		t.Errorf("after %d MiB in a temporary table: error %d instead of %d", taken, number, want)
	}
}

// fillSystemTablespace fills the file that never shrinks, and that tables can be put into on MySQL alone.
func fillSystemTablespace(t *testing.T, n neighbours, hostile testdrive.Credentials) {
	db := hostile.Open(t)
	_, err := db.ExecContext(t.Context(), "CREATE TABLE outside (content LONGBLOB) TABLESPACE=innodb_system")
	if n.Server.Flavour == "mariadb" {
		if err == nil {
			t.Error("MariaDB put a table into the system tablespace")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	const most = 40
	taken, number := refusedWith(t, session(t, db), most, func(int) string {
		return "INSERT INTO outside VALUES (REPEAT('x', 1 << 20))"
	})
	if number != tableFull {
		t.Errorf("after %d MiB in the system tablespace: error %d instead of %d", taken, number, tableFull)
	}
	size := testdrive.Read[int](t, n.Admin(t), `SELECT SUM(TOTAL_EXTENTS * EXTENT_SIZE) FROM information_schema.FILES
		WHERE TABLESPACE_NAME = 'innodb_system'`)
	if size > 24*testdrive.Mebibyte {
		t.Errorf("the system tablespace has %d bytes", size)
	}
}

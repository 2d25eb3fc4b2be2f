package mysqladmin_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Tenants of a server are kept apart, and none is its master. A victim's database holds a table with one row, and a
// session of its account runs a statement.
func TestTenantsAreKeptApart(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f, other := newFixture(t, s), newFixture(t, s)
		victim := other.account(plan.Admin)
		theirs := other.loginAs(victim)
		f.exec(theirs, "CREATE TABLE user (name TEXT)", "INSERT INTO user VALUES ('secret')",
			"CREATE PROCEDURE tell() SELECT * FROM user")
		ctx, cancel := context.WithCancel(t.Context())
		var sleeping sync.WaitGroup
		sleeping.Go(func() {
			_, _ = theirs.ExecContext(ctx, "SELECT SLEEP(600) FROM user") // until cancel closes its connection
		})
		defer sleeping.Wait()
		defer cancel()
		f.running(victim.Name, "SELECT SLEEP(600) FROM user")
		f.exec(f.loginAs(f.account(plan.Admin)), "CREATE TABLE mine (n INT)")
		for _, role := range everyRole {
			a := f.account(role)
			db := f.loginAs(a)
			f.attack(s.Flavour, db, other.database, victim.Name, s.BrokerUser)
			f.lurk(db, a.Name, other.database)
			for _, account := range []string{victim.Name, s.BrokerUser} {
				id := testdrive.Read[int](t, f.root, "SELECT MIN(id) FROM information_schema.processlist WHERE user = ?", account)
				for _, statement := range []string{"KILL %d", "KILL QUERY %d"} {
					assert.EqualValues(t, 1095, testdrive.RefusalOf(t, db, fmt.Sprintf(statement, id)),
						"%s of %s: error", statement, account)
				}
			}
		}
		f.attack(s.Flavour, f.loginAs(f.account(plan.Admin)), "mysql", victim.Name, s.BrokerUser)
		assert.Equal(t, []string{"secret"}, f.strings(t.Context(), "SELECT name FROM "+other.database+".user"),
			"the other tenant's table")
		assert.Len(t, f.strings(t.Context(), "SHOW TABLES FROM "+other.database), 1, "the other tenant has the tables")
	})
}

// A tenant is not the master of its dedicated server either, which lacks the settings of shared ones.
func TestTenantOfADedicatedServer(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		s = testdrive.PrivateDedicated(t, s.Flavour)
		f := newFixture(t, s)
		other := f.account(plan.Admin)
		f.exec(f.loginAs(other), "CREATE TABLE mine (n INT)")
		for _, role := range everyRole {
			f.attack(s.Flavour, f.loginAs(f.account(role)), "mysql", other.Name, s.BrokerUser)
		}
	})
}

// Every account can change its own password, which no server can forbid. The tenant can change nothing else, and its
// access can still be revoked.
func TestTenantChangesItsAccount(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.Admin)
		db := f.loginAs(a)
		for _, change := range []string{"WITH MAX_USER_CONNECTIONS 1000", "REQUIRE NONE", "ACCOUNT UNLOCK", "PASSWORD EXPIRE NEVER"} {
			f.denied(db, "ALTER USER '"+a.Name+"'@'%' "+change)
		}
		change := map[string]string{"mysql": "SET PASSWORD = '%s'", "mariadb": "SET PASSWORD = PASSWORD('%s')"}[f.config.Name]
		changed := a
		changed.Password = "a password of the tenant's own"
		f.exec(db, fmt.Sprintf(change, strings.ReplaceAll(changed.Password, "'", "''")))
		err := f.checkLogin(a.Name, a.Password)
		assert.True(t, testdrive.ErrorNumber(err) == 1045, "the former password: %v", err)
		open := f.loginAs(changed)
		f.must(open.PingContext(t.Context()))
		f.expectNoAccess(a, false)
		assert.Error(t, open.PingContext(t.Context()), "the tenant's session outlived its access")
		f.expectAccount(a.Name, false)
	})
}

// attacks are statements that no server may accept from a tenant. <db> is another tenant's database, or mysql, with a
// table user; <them> is an account of another tenant's, and <broker> the broker's. The table mine is the tenant's own.
var attacks = map[string][]string{
	"either": {
		"USE <db>", "SELECT * FROM <db>.user", "INSERT INTO <db>.user VALUES ('x')", "UPDATE <db>.user SET name = 'x'",
		"DELETE FROM <db>.user", "TRUNCATE <db>.user", "DROP TABLE <db>.user", "ALTER TABLE <db>.user ADD x INT",
		"CREATE TABLE <db>.x (n INT)", "CREATE TEMPORARY TABLE <db>.x (n INT)", "CREATE TABLE own LIKE <db>.user",
		"CREATE VIEW <db>.x AS SELECT 1", "CREATE VIEW own AS SELECT * FROM <db>.user",
		"CREATE SQL SECURITY INVOKER VIEW own AS SELECT * FROM <db>.user",
		"CREATE DEFINER=<them> SQL SECURITY DEFINER VIEW own AS SELECT * FROM <db>.user",
		"CREATE DEFINER=<them> PROCEDURE own() SELECT * FROM <db>.user", "CREATE DEFINER=<broker> VIEW own AS SELECT 1",
		"CREATE DEFINER=<broker> PROCEDURE own() SELECT 1", "CREATE DEFINER=<broker> FUNCTION own() RETURNS INT RETURN 1",
		"CREATE DEFINER=<broker> EVENT own ON SCHEDULE EVERY 1 SECOND DO GRANT ALL ON *.* TO <them>",
		"CREATE DEFINER=<broker> TRIGGER own BEFORE INSERT ON mine FOR EACH ROW SET NEW.n = 1",
		"CREATE EVENT <db>.x ON SCHEDULE EVERY 1 SECOND DO SELECT 1", "RENAME TABLE mine TO <db>.mine",
		"ALTER TABLE mine RENAME TO <db>.mine", "HANDLER <db>.user OPEN", "LOCK TABLES <db>.user READ", "CALL <db>.tell()",
		"CREATE TABLE own (n INT, FOREIGN KEY (n) REFERENCES <db>.user (name))",
		"CREATE TABLE own (name TEXT) ENGINE=MERGE UNION=(<db>.user)", "SHOW TABLES FROM <db>", "DESCRIBE <db>.user",
		"SHOW CREATE TABLE <db>.user", "SHOW CREATE DATABASE <db>", "DROP DATABASE <db>",
		"ALTER DATABASE <db> CHARACTER SET latin1", "CREATE DATABASE db_of_an_intruder", "DROP DATABASE mysql",
		"SELECT * FROM mysql.user", "SELECT * FROM mysql.db", "SELECT * FROM mysql.general_log",
		"SELECT * FROM mysql.slow_log", "SELECT * FROM mysql.innodb_table_stats", "CREATE TABLE mysql.x (n INT)",
		"CREATE TABLE information_schema.x (n INT)", "CREATE TABLE performance_schema.x (n INT)",
		"CREATE TABLE sys.x (n INT)", "SELECT * FROM sys.processlist",
		"CREATE USER intruder", "DROP USER <them>", "RENAME USER <them> TO intruder", "SHOW GRANTS FOR <them>",
		"SHOW GRANTS FOR <broker>", "SHOW CREATE USER <them>", "ALTER USER <them> IDENTIFIED BY 'x'",
		"ALTER USER <broker> IDENTIFIED BY 'x'", "ALTER USER <them> ACCOUNT LOCK", "CREATE ROLE intruder",
		"GRANT SELECT ON *.* TO <them>", "GRANT PROXY ON <broker> TO <them>",
		"REVOKE ALL PRIVILEGES, GRANT OPTION FROM <them>",
		"SET GLOBAL max_connections = 10", "SET GLOBAL general_log = 1", "SET GLOBAL read_only = 1",
		"SET GLOBAL event_scheduler = OFF", "SET GLOBAL local_infile = 1", "SET SESSION sql_log_bin = 0",
		"SELECT 1 INTO OUTFILE '/tmp/mysql-broker-test-intruder'", "SELECT 1 INTO DUMPFILE '/tmp/mysql-broker-test-intruder'",
		"LOAD DATA INFILE '/etc/passwd' INTO TABLE mine", "INSTALL PLUGIN x SONAME 'ha_blackhole.so'",
		"CREATE FUNCTION intruder RETURNS STRING SONAME 'x.so'",
		"CREATE SERVER x FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'x', DATABASE 'x', USER 'x')",
		"FLUSH TABLES WITH READ LOCK", "FLUSH PRIVILEGES", "FLUSH LOGS", "FLUSH STATUS", "FLUSH USER_RESOURCES",
		"PURGE BINARY LOGS TO 'x'", "SHOW BINARY LOGS", "SHOW ENGINE INNODB STATUS", "SHOW BINLOG EVENTS", "SHUTDOWN",
	},
	"mysql": {
		"SET PERSIST max_connections = 10",
		"INSTALL COMPONENT 'file://component_validate_password'", "CREATE TABLESPACE x ADD DATAFILE 'x.ibd'",
		"CREATE TABLE own (n INT) DATA DIRECTORY = '/tmp'", "LOCK INSTANCE FOR BACKUP",
		"CREATE RESOURCE GROUP x TYPE = USER", "ALTER INSTANCE ROTATE INNODB MASTER KEY", "ALTER INSTANCE RELOAD TLS",
		"ALTER INSTANCE DISABLE INNODB REDO_LOG", "CLONE LOCAL DATA DIRECTORY = '/tmp/mysql-broker-test-intruder'",
		"RESTART", "RESET BINARY LOGS AND GTIDS", "STOP REPLICA", "IMPORT TABLE FROM '/tmp/x.sdi'",
		"ALTER DATABASE <db> READ ONLY = 1", "XA RECOVER",
		"SELECT * FROM information_schema.innodb_trx", "SELECT * FROM information_schema.innodb_tables",
		"SELECT * FROM information_schema.innodb_tablespaces", "SELECT * FROM information_schema.innodb_buffer_page",
		"SELECT * FROM performance_schema.threads", "SELECT * FROM performance_schema.events_statements_current",
		"SELECT * FROM performance_schema.events_statements_history", "SELECT * FROM performance_schema.accounts",
		"SELECT * FROM performance_schema.data_locks", "SELECT * FROM performance_schema.metadata_locks",
		"SELECT * FROM performance_schema.user_variables_by_thread", "SELECT * FROM performance_schema.file_instances",
		"SELECT * FROM performance_schema.error_log", "SELECT * FROM performance_schema.table_handles",
	},
	"mariadb": {
		"INSTALL SONAME 'ha_blackhole'", "BACKUP STAGE START", "BACKUP LOCK <db>.user", "RESET MASTER", "STOP SLAVE",
		"SELECT * FROM mysql.global_priv", "SELECT * FROM mysql.proc", "SELECT * FROM mysql.event",
		"SET SESSION binlog_format = 'ROW'", "SET SESSION pseudo_thread_id = 1",
		"SELECT * FROM information_schema.innodb_trx", "SELECT * FROM information_schema.innodb_sys_tables",
		"SELECT * FROM information_schema.innodb_sys_tablespaces",
		"SELECT * FROM information_schema.innodb_buffer_page", "SHOW TABLE STATUS FROM <db>",
	},
}

func (f *fixture) attack(flavour string, db *sql.DB, database, them, broker string) {
	names := strings.NewReplacer("<db>", "`"+database+"`", "<them>", "'"+them+"'@'%'", "<broker>", "'"+broker+"'@'%'")
	for _, statement := range slices.Concat(attacks["either"], attacks[flavour]) {
		f.denied(db, names.Replace(statement))
	}
}

// denied fails the test unless a statement is refused for want of a privilege: 1401 is MySQL's to XA RECOVER, 1698
// MariaDB's to GRANT PROXY.
func (f *fixture) denied(db *sql.DB, statement string) {
	_, err := db.ExecContext(f.t.Context(), statement)
	assert.Contains(f.t, []uint16{1044, 1045, 1142, 1143, 1227, 1370, 1401, 1698}, testdrive.ErrorNumber(err),
		"%s: %v instead of a refusal for want of a privilege", statement, err)
}

// lurk looks for another tenant in everything that a tenant may read.
func (f *fixture) lurk(db *sql.DB, account, theirs string) {
	for _, view := range []string{"columns.table_schema", "events.event_schema", "key_column_usage.table_schema",
		"partitions.table_schema", "referential_constraints.constraint_schema", "routines.routine_schema",
		"parameters.specific_schema", "schemata.schema_name", "schema_privileges.table_schema",
		"statistics.table_schema", "tables.table_schema", "table_constraints.table_schema",
		"table_privileges.table_schema", "triggers.trigger_schema", "views.table_schema", "processlist.db"} {
		table, column, _ := strings.Cut(view, ".")
		query := fmt.Sprintf("SELECT COUNT(*) FROM information_schema.%s WHERE %s = ?", table, column)
		assert.Zero(f.t, testdrive.Read[int](f.t, db, query, theirs), "of the other tenant's: %s", query)
	}
	for _, query := range []string{
		"SELECT COUNT(*) FROM information_schema.processlist WHERE user <> ?",
		"SELECT COUNT(*) FROM information_schema.user_privileges WHERE grantee <> CONCAT('''', ?, '''@''%''')",
		"SELECT COUNT(*) FROM performance_schema.session_account_connect_attrs WHERE ? = ''",
	} {
		assert.Zero(f.t, testdrive.Read[int](f.t, db, query, account), query)
	}
}

// hostileSettings are smaller than those shipped, so that an attack meets them sooner.
var hostileSettings = map[string][]string{
	"mysql":   {"innodb_open_files=300", "innodb_data_file_path=ibdata1:12M:autoextend:max:24M"},
	"mariadb": {"partition=OFF", "innodb_open_files=300", "innodb_temp_data_file_path=ibtmp1:12M:autoextend:max:24M"},
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
			{"system tablespace", fillSystemTablespace}, {"texts of intermediate rows", pinPages},
		} {
			t.Run(attack.name, func(t *testing.T) {
				f := newFixture(t, private)
				a := f.account(plan.ReadWrite)
				f.must(f.session.Accounts.SetConnectionLimit(t.Context(), a.Name, hostileConnections))
				attack.run(f, a)
				expectService(t, private, db)
				_, err := f.session.Accounts.Revoke(t.Context(), a.Name, f.database)
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
		if number := testdrive.ErrorNumber(err); number != 0 {
			return n, number
		}
		require.NoError(f.t, err, "after %d statements", n)
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

// Errors of servers.
const (
	skipOption       = 1290 // MariaDB's, for what an option has switched off
	noMoreStatements = 1461 // where there are max_prepared_stmt_count prepared statements
	tableFull        = 1114 // where a tablespace may not grow
)

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

// pinPages has each session write an intermediate row of nearly as many texts as MariaDB accepts. The row keeps a page
// of Aria's cache for each text until it is complete. Where all pages are taken, the server hangs.
func pinPages(f *fixture, hostile mysqladmin.Account) {
	const texts = 2500
	if f.config.Name == "mysql" {
		return
	}
	table := f.database + ".wide"
	f.exec(f.root, "CREATE TABLE "+table+" SELECT 1 id")
	statement := "SELECT SQL_BUFFER_RESULT " + strings.Repeat("REPEAT(id, 600), ", texts) + "1 FROM " + table
	ctx, cancel := context.WithTimeout(f.t.Context(), limits.Stuck)
	defer cancel()
	var sessions errgroup.Group
	for range hostileConnections {
		conn := f.connect(hostile)
		sessions.Go(func() error {
			_, err := conn.ExecContext(ctx, statement)
			return err
		})
	}
	f.must(sessions.Wait())
}

package mysqladmin_test

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

func TestCreateAccountAgainLeavesExactlyWhatIsAsked(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		before := f.account(plan.Admin)
		fresh := before
		fresh.Name = uniqueName("u_")
		fresh.Role, fresh.Password, fresh.MaxConnections = plan.ReadOnly, rand.Text(), 2
		after := fresh
		after.Name = before.Name
		f.must(f.session.Accounts.Create(t.Context(), fresh))
		f.exec(f.loginAs(before), "CREATE VIEW v AS SELECT 1") // MySQL does not create definers
		f.exec(f.root, "ALTER USER '"+before.Name+"'@'%' ACCOUNT LOCK")
		for range 2 {
			f.must(f.session.Accounts.Create(t.Context(), after))
		}
		want := strings.ReplaceAll(strings.Join(grants(f, fresh.Name), "\n"), fresh.Name, after.Name)
		assert.Equal(t, want, strings.Join(grants(f, after.Name), "\n"), "grants of an account that was created again")
		f.must(f.checkLogin(after.Name, after.Password))
		err := f.checkLogin(before.Name, before.Password)
		assert.True(t, testdrive.ErrorNumber(err) == 1045, "the former password: %v", err)
	})
}

// grants returns the grants of an account, without the hash of its password.
func grants(f *fixture, account string) (all []string) {
	for _, grant := range f.strings(f.t.Context(), "SHOW GRANTS FOR ?@'%'", account) {
		grant, _, _ = strings.Cut(grant, " IDENTIFIED ")
		all = append(all, grant)
	}
	slices.Sort(all)
	return all
}

func (f *fixture) checkLogin(user, password string) error {
	return mysqladmin.CheckLogin(f.t.Context(), f.configFor(user, password), f.database)
}

// Later changes of an account keep whether it requires TLS.
func TestAccountKeepsWhetherItRequiresTLS(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, required := range []bool{true, false} {
			a := mysqladmin.Account{
				Name: uniqueName("u_"), Password: rand.Text(), Database: f.database, Role: plan.ReadWrite,
				MaxConnections: 2, RequireTLS: required,
			}
			f.must(f.session.Accounts.Create(t.Context(), a))
			f.must(f.session.Accounts.SetConnectionLimit(t.Context(), a.Name, 3))
			f.must(f.session.Writes.RemovePrivileges(t.Context(), a.Name, a.Role, a.Database))
			f.must(f.session.Writes.RestorePrivileges(t.Context(), a.Name, a.Role, true, a.Database))
			assert.Equal(t, required, testdrive.ErrorNumber(f.loginAs(a).PingContext(t.Context())) != 0,
				"TLS is required: %v, a login without it is refused", required)
		}
	})
}

func TestErrorsKeepThePasswordToThemselves(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := mysqladmin.Account{
			Name: strings.Repeat("n", 200), Password: rand.Text(), Database: f.database, Role: plan.ReadOnly,
		}
		err := f.session.Accounts.Create(t.Context(), a)
		assert.True(t, testdrive.ErrorNumber(err) != 0 && strings.HasSuffix(err.Error(), "message withheld"),
			"a name that is too long: %v", err)
		err = f.checkLogin("nobody", a.Password)
		assert.True(t, testdrive.ErrorNumber(err) == 1045 && !strings.Contains(err.Error(), a.Password), "a login that fails: %v", err)
	})
}

func TestCheckLoginWantsTheDatabaseToo(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadOnly)
		f.must(f.checkLogin(a.Name, a.Password))
		err := mysqladmin.CheckLogin(t.Context(), f.configFor(a.Name, a.Password), "mysql")
		assert.EqualValues(t, 1044, testdrive.ErrorNumber(err), "a database the account may not use: %v", err)
	})
}

var everyRole = []plan.Role{plan.ReadOnly, plan.ReadWrite, plan.Admin}

func TestReadOnlyReadsAndNothingElse(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		writer := f.loginAs(f.account(plan.ReadWrite))
		f.exec(writer, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)", "CREATE VIEW v AS SELECT id FROM t")
		reader := f.loginAs(f.account(plan.ReadOnly))
		f.exec(reader, "SELECT * FROM t", "SELECT * FROM v", "SHOW CREATE VIEW v")
		f.refused(reader, "INSERT INTO t VALUES (2)", "UPDATE t SET id = 2", "DELETE FROM t", "DROP TABLE t",
			"CREATE TABLE t2 (id INT)", "ALTER TABLE t ADD COLUMN x INT", "TRUNCATE t", "LOCK TABLES t WRITE",
			"CREATE VIEW v2 AS SELECT 1", "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1")
	})
}

func TestReadWriteAndAdminDoAllThatAnApplicationNeeds(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, role := range everyRole[1:] {
			f.exec(f.connect(f.account(role)),
				"CREATE TABLE parent (id INT PRIMARY KEY)",
				"CREATE TABLE t (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent (id))",
				"ALTER TABLE t ADD COLUMN x INT", "CREATE INDEX i ON t (x)",
				"INSERT INTO t (id) VALUES (1)", "UPDATE t SET x = 2", "SELECT * FROM t",
				"CREATE VIEW v AS SELECT id FROM t", "SELECT * FROM v", "SHOW CREATE VIEW v",
				"CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.x = 1",
				"CREATE PROCEDURE p() SELECT 1", "CALL p()",
				"CREATE FUNCTION fn() RETURNS INT DETERMINISTIC RETURN 1", "SELECT fn()",
				"CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
				"LOCK TABLES t WRITE", "UNLOCK TABLES",
				"CREATE TEMPORARY TABLE tmp (id INT)", "INSERT INTO tmp VALUES (1)",
				"DELETE FROM t", "DROP EVENT e", "DROP FUNCTION fn", "DROP PROCEDURE p", "DROP VIEW v",
				"TRUNCATE t", "DROP TABLE t, parent")
		}
	})
}

func TestAccountCannotReachADatabaseThatDiffersAtAnUnderscore(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		neighbour := "dbx" + f.database[len("db_"):]
		f.exec(f.root, "CREATE DATABASE `"+neighbour+"`", "CREATE TABLE `"+neighbour+"`.t (id INT)")
		f.finally("DROP DATABASE `" + neighbour + "`")
		for _, role := range everyRole {
			db := f.loginAs(f.account(role))
			f.refused(db, "USE `"+neighbour+"`", "SELECT * FROM `"+neighbour+"`.t", "DROP TABLE `"+neighbour+"`.t")
			visible := testdrive.ReadAll(t, db, "SHOW DATABASES")
			assert.True(t, !slices.Contains(visible, neighbour) && slices.Contains(visible, f.database),
				"%s sees %v", role, visible)
		}
	})
}

// On a full disk, no account is changed; what does not exist counts as dropped.
func TestNoRoomForAccounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		there := f.account(plan.ReadWrite)
		cfg := f.config
		cfg.Room = func() error { return errors.New("3 MiB are left") }
		s, err := f.open(cfg).Lock(t.Context(), uniqueName("key_"), leaseHolds)
		f.must(err)
		t.Cleanup(func() { f.must(s.Close()) })
		missing := mysqladmin.Account{Name: uniqueName("u_"), Password: "x", Database: f.database, Role: plan.ReadOnly}
		for doing, err := range map[string]error{"create": s.Accounts.Create(t.Context(), missing),
			"drop": s.Accounts.Drop(t.Context(), there.Name), "lock": s.Accounts.Lock(t.Context(), there.Name)} {
			assert.True(t, errors.Is(err, mysqladmin.ErrNoRoom) && mysqladmin.DiskFull(err), "%s: %v", doing, err)
		}
		f.must(s.Accounts.Drop(t.Context(), missing.Name))
		f.must(f.loginAs(there).PingContext(t.Context()))
	})
}

// A table of accounts that a full disk has damaged is repaired by the next change of an account.
func TestDamagedAccounts(t *testing.T) {
	t.Parallel()
	private := testdrive.Private(t, "mariadb") // MySQL keeps accounts in InnoDB
	private.BrokerUser, private.BrokerPassword = private.User, private.Password
	f := newFixture(t, private)
	dir := testdrive.Read[string](t, f.root, "SELECT @@datadir")
	for range 3 {
		f.account(plan.ReadOnly)
	}
	f.exec(f.root, "FLUSH TABLES mysql.global_priv")
	index, err := os.OpenFile(filepath.Join(dir, "mysql", "global_priv.MAI"), os.O_RDWR, 0)
	f.must(err)
	defer index.Close()
	const page = 8192 // of Aria; the first one describes the table
	_, err = index.WriteAt(make([]byte, page), page)
	f.must(err)
	_, err = f.root.ExecContext(t.Context(), "CREATE USER probe")
	require.True(t, mysqladmin.Damaged(err), "the table is not damaged: %v", err)
	a := f.account(plan.ReadWrite)
	f.must(f.loginAs(a).PingContext(t.Context()))
	f.exec(f.root, "CREATE USER probe", "DROP USER probe")
}

// Without events, a role has all its other privileges, and RestorePrivileges revokes EVENT. An account that lacks it loses
// the other write privileges all the same.
func TestRolesWithoutEvents(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		const create = "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1"
		for _, role := range everyRole {
			with := f.account(role)
			all := strings.Split(f.privileges(with.Name), ",")
			without := with
			without.Name, without.Events = uniqueName("u_"), false
			f.must(f.session.Accounts.Create(t.Context(), without))
			want := strings.Join(slices.DeleteFunc(all, func(p string) bool { return p == "EVENT" }), ",")
			assert.Equal(t, want, f.privileges(without.Name), "%s without events", role)
			f.refused(f.connect(without), create, "DROP EVENT e", "ALTER EVENT e DISABLE")

			for range 2 { // both may be repeated
				f.must(f.session.Writes.RestorePrivileges(t.Context(), with.Name, role, false, f.database))
				assert.Equal(t, want, f.privileges(with.Name), "%s released without events", role)
			}
			for range 2 {
				f.must(f.session.Writes.RemovePrivileges(t.Context(), without.Name, role, f.database))
				f.refused(f.connect(without), "CREATE TABLE t (id INT)", "CREATE PROCEDURE p() SELECT 1")
			}
			f.must(f.session.Writes.RestorePrivileges(t.Context(), without.Name, role, true, f.database))
			if role != plan.ReadOnly {
				f.exec(f.connect(without), create, "DROP EVENT e")
			}
		}
	})
}

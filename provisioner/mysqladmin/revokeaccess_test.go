package mysqladmin_test

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// Once a server has read an account, a pending login succeeds, even if the account is locked meanwhile. One whose client
// keeps silent is TestRevokeAccessEndsLoginsThatStop's.
func TestRevokeAccessEndsLoginsThatWereUnderWay(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1") // so that the account is kept
		f.exec(f.root, "FLUSH PRIVILEGES")                // so that MySQL forgets the password, and asks twice
		login := f.nameRaw(a)
		revoked := make(chan error, 1)
		go func() {
			_, err := f.session.Accounts.Revoke(t.Context(), a.Name, a.Database)
			revoked <- err
		}()
		testdrive.Eventually(f.t, "the account is locked", func() bool { return f.checkLogin(a.Name, a.Password) != nil })
		late := login.prove() // or the login was ended before
		f.must(<-revoked)
		assert.False(t, late == nil && login.query(t.Context(), "DO 1") == nil, "a login that was under way outlived its account")
	})
}

func TestRevokeAccessShutsOutAClientThatReconnects(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		db := f.loginAs(a)
		ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
		defer cancel()
		var connected, ended sync.WaitGroup
		for range 3 {
			connected.Add(1)
			ended.Go(func() { reconnect(ctx, db, connected.Done) })
		}
		connected.Wait()
		f.expectNoAccess(a, false)
		ended.Wait()
		assert.NoError(t, ctx.Err(), "a session outlived its account")
	})
}

// reconnect keeps a session busy. If it is killed, reconnect opens another, until the login is refused or ctx ends.
func reconnect(ctx context.Context, db *sql.DB, connected func()) {
	first := sync.OnceFunc(connected)
	defer first() // so that a login that never works fails the test rather than hangs it
	for {
		conn, err := db.Conn(ctx)
		if testdrive.ErrorNumber(err) != 0 || ctx.Err() != nil {
			return
		}
		if err != nil {
			continue
		}
		first()
		for err == nil {
			_, err = conn.ExecContext(ctx, "DO SLEEP(0.001)")
		}
		_ = conn.Close()
	}
}

func (f *fixture) expectNoAccess(a mysqladmin.Account, wantKept bool) {
	kept, err := f.session.Accounts.Revoke(f.t.Context(), a.Name, a.Database)
	f.must(err)
	require.Equal(f.t, wantKept, kept, "kept")
}

func (f *fixture) expectAccount(name string, want bool) {
	found := len(f.strings(f.t.Context(), "SELECT user FROM mysql.user WHERE user = ? AND host = '%'", name)) > 0
	assert.Equal(f.t, want, found, "account %s exists", name)
}

func TestRevokeAccessKeepsDefinersLocked(t *testing.T) {
	defines := map[string]struct{ make, use string }{
		"view":      {"CREATE VIEW o AS SELECT * FROM t", "SELECT * FROM o"},
		"trigger":   {"CREATE TRIGGER o BEFORE INSERT ON t FOR EACH ROW SET NEW.id = 7", "INSERT INTO t VALUES (1)"},
		"procedure": {"CREATE PROCEDURE o() SELECT * FROM t", "CALL o()"},
		"function":  {"CREATE FUNCTION o() RETURNS INT DETERMINISTIC RETURN 1", "SELECT o()"},
		"event":     {"CREATE EVENT o ON SCHEDULE EVERY 1 DAY DO DELETE FROM t", "SHOW CREATE EVENT o"},
	}
	for kind, object := range defines {
		t.Run(kind, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, f *fixture) {
				for _, privilegesKnown := range []bool{false, true} {
					if privilegesKnown {
						f.must(f.server.Setup.CheckPrivileges(t.Context()))
						f.session = f.lock(f.database+" again", leaseHolds)
					}
					f.must(f.session.Databases.Create(t.Context(), f.database, "", ""))
					a := f.account(plan.ReadWrite)
					open := f.loginAs(a)
					f.exec(open, "CREATE TABLE t (id INT)", object.make)
					for range 2 {
						f.expectNoAccess(a, true)
					}
					assert.Error(t, open.PingContext(t.Context()), "an open session of a kept account lives on")
					// It has both a lock and a new password.
					assert.NotZero(t, testdrive.ErrorNumber(f.checkLogin(a.Name, a.Password)), "login to a kept account")
					f.exec(f.root, "ALTER USER '"+a.Name+"'@'%' ACCOUNT UNLOCK")
					assert.EqualValues(t, 1045, testdrive.ErrorNumber(f.checkLogin(a.Name, a.Password)),
						"login to a kept account, unlocked, with its former password")
					f.exec(f.root, "ALTER USER '"+a.Name+"'@'%' ACCOUNT LOCK")
					f.exec(f.loginAs(f.account(plan.ReadWrite)), object.use)

					f.must(f.session.Databases.Drop(t.Context(), f.database))
					for range 2 {
						f.must(f.session.Accounts.Drop(t.Context(), a.Name))
					}
					f.expectAccount(a.Name, false)
				}
			})
		})
	}
}

func TestDropAccountKillsItsSessions(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		conn := f.connect(a)
		f.must(f.session.Accounts.Drop(t.Context(), a.Name))
		assert.Error(t, conn.PingContext(t.Context()), "an open session of a dropped account lives on")
	})
}

// A statement of an idle session can be killed by anyone with the same account. MariaDB then lists the session as it
// lists one that was killed, although it goes on with the next statement.
func TestRevokeAccessEndsSessionsWhoseStatementWasKilled(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		conn := f.connect(a)
		var id int64
		f.must(conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&id))
		f.exec(f.loginAs(a), fmt.Sprintf("KILL QUERY %d", id))
		f.expectNoAccess(a, false)
		_, err := conn.ExecContext(t.Context(), "SELECT 1")
		assert.Error(t, err, "a session outlived its account")
	})
}

package mysqladmin_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

// A worker may be paused while its statement waits on the server. The statement must not take effect after the next
// session took the lock.
func TestSessionLockEndsAStatementUnderWay(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.exec(f.root, "CREATE TABLE `"+f.database+"`.t (id INT)")
		blocker, err := f.root.BeginTx(t.Context(), nil)
		f.must(err)
		f.exec(blocker, "INSERT INTO `"+f.database+"`.t VALUES (1)")
		key := uniqueName("task_")
		first := f.lock(key, leaseHolds)
		ended := make(chan error, 1)
		go func() { ended <- first.Databases.Drop(t.Context(), f.database) }()
		f.running(f.config.User, "DROP DATABASE%"+f.database+"%")
		f.lock(key, leaseHolds)
		f.must(blocker.Commit())
		err = testdrive.Receive(t, ended, "the statement of the former worker ends")
		assert.True(t, mysqladmin.Unreachable(err), "the statement of the former worker: %v", err)
		f.expectDatabase(f.database, true) // or the statement landed
	})
}

// Whoever may not change the server neither disturbs the lock's holder nor leaves anything behind.
func TestSessionLockThatIsNotAllowedKillsNobody(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		older := errors.New("PostgreSQL is older than the server")
		refuse := func(from mysqladmin.MarkReader) error {
			_, found, err := from.ReadMark(t.Context(), uniqueName("identity_"))
			assert.True(t, !found && err == nil, "the mark is read: %v, %v", found, err)
			return older
		}
		key := uniqueName("task_")
		holder := f.lock(key, leaseHolds)
		for _, which := range []string{key, uniqueName("task_")} {
			_, err := f.server.LockIf(t.Context(), which, "", refuse, leaseHolds)
			assert.ErrorIs(t, err, older, "the lock")
		}
		f.must(holder.Databases.Create(t.Context(), f.database, "", ""))
	})
}

// An organization that has all sessions that it can get does not keep others from theirs.
func TestSessionsGoRoundByOrganization(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		f.config.MaxConns = 4
		server := f.open(f.config)
		lock := func(ctx context.Context, organization string) error {
			session, err := server.LockIf(ctx, uniqueName("task_"), organization, nil, leaseHolds)
			if err == nil {
				t.Cleanup(func() { f.must(session.Close()) })
			}
			return err
		}
		for range 3 {
			f.must(lock(t.Context(), "greedy"))
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(100*time.Millisecond, cancel)
		assert.ErrorIs(t, lock(ctx, "greedy"), context.Canceled, "a fourth session of one organization")
		f.must(lock(t.Context(), "other"))
	})
}

// Tenants can take any lock whose name they can compute. The names of the broker's locks depend on a secret key.
func TestSessionLockKeyIsPartOfTheLock(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		key := uniqueName("task_")
		guess := f.lock(key, leaseHolds)
		first := f.keyed("secret").lock(key, leaseHolds)
		f.must(guess.Databases.Create(t.Context(), f.database, "", ""))
		f.must(first.Databases.Create(t.Context(), f.database, "", ""))
		f.keyed("secret").lock(key, leaseHolds)
		err := first.Databases.Create(t.Context(), f.database, "", "")
		assert.True(t, err != nil && mysqladmin.Unreachable(err), "a statement under the lock of a replica: %v", err)
	})
}

// keyed is the fixture as a replica of the broker with that SessionLockKey has it.
func (f *fixture) keyed(lockKey string) *fixture {
	replica := *f
	replica.config.SessionLockKey = []byte(lockKey)
	replica.server = f.open(replica.config)
	return &replica
}

func TestClosedSessionLockLetsTheNextOneIn(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		replica := f.open(f.config)
		key := uniqueName("task_")
		asked := 0
		for _, server := range []*mysqladmin.Server{f.server, replica, f.server} {
			session, err := server.Lock(t.Context(), key, func() error { asked++; return nil })
			f.must(err)
			f.must(session.Close())
		}
		assert.Equal(t, 3, asked, "alive was asked %d times, want once for each session that finds the lock free", asked)
	})
}

func TestLostLeasePreventsEverything(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		lost := errors.New("lease lost")
		key := uniqueName("task_")
		var lease error
		session := f.lock(key, func() error { return lease })
		lease = lost

		_, err := f.server.Lock(t.Context(), key, func() error { return lost })
		assert.ErrorIs(t, err, lost, "a session lock without a lease")
		a := f.account(plan.ReadWrite)
		other := uniqueName("db_")
		_, retired := session.Accounts.Revoke(t.Context(), a.Name, f.database)
		for what, err := range map[string]error{
			"CreateDatabase":     session.Databases.Create(t.Context(), other, "", ""),
			"DropDatabase":       session.Databases.Drop(t.Context(), f.database),
			"CreateAccount":      session.Accounts.Create(t.Context(), a),
			"SetConnectionLimit": session.Accounts.SetConnectionLimit(t.Context(), a.Name, 1),
			"RevokeAccess":       retired,
			"DropAccount":        session.Accounts.Drop(t.Context(), a.Name),
		} {
			assert.ErrorIs(t, err, lost, "%s: %v, want the lease's error", what, err)
		}
		f.must(f.checkLogin(a.Name, a.Password)) // and so the database is there, too
		f.expectDatabase(other, false)
	})
}

// A statement is sent only if the check succeeds, and soon enough after it.
func TestExecIf(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadWrite)
		cfg := f.configFor(a.Name, a.Password)
		create := func(table string, check func() error) error {
			return mysqladmin.ExecIf(t.Context(), cfg, "CREATE TABLE "+f.database+"."+table+" (n INT PRIMARY KEY)", check)
		}
		f.must(create("soon", func() error { return nil }))
		lost := errors.New("lease lost")
		assert.ErrorIs(t, create("never", func() error { return lost }), lost, "the check failed, and the statement")
		err := create("late", func() error {
			testdrive.AwaitTrue(t, f.root, "SELECT COUNT(*) = 0 FROM information_schema.processlist WHERE user = ?", a.Name)
			return nil
		})
		assert.Error(t, err, "a statement was carried out long after its check")
		assert.Equal(t, []string{"soon"}, testdrive.ReadAll(t, f.root, "SHOW TABLES FROM "+f.database))
	})
}

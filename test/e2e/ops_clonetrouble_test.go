package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestCloneOfTroubledSource copies an instance while it is changed, and while its server fails. What becomes of the
// copy is said in a sentence, and the source stays as it was.
func TestCloneOfTroubledSource(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		server := testdrive.StartCrashable(t, s.Flavour)
		env := testdrive.Environment(t, server.MySQL)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, server.MySQL, env)
		admin, records := p.admin(t), openTasks(t, env)
		source := p.ownInstance(t, "shared-small")
		source.provision(t, now, body{"context": cloudFoundry}).Expect(t, http.StatusCreated)
		b, c := source.bound(t, nil)
		db := c.open(t)
		for n := range 12 { // workers are at some when the first is copied
			exec(t, db, fmt.Sprintf("CREATE TABLE t%02d AS SELECT 1 AS id", n))
		}
		tables := func(db string) string {
			return strings.Join(readAll(t, admin, "SELECT CONCAT(table_name, ' ', column_name) FROM information_schema.columns "+
				"WHERE table_schema = '"+db+"' ORDER BY 1"), ", ")
		}
		begin := func() (instance, string, func()) {
			i := p.ownInstance(t, "dedicated-small")
			reached, release := holdAt(t, faults, "provision: copied")
			operation := i.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation")
			testdrive.Receive(t, reached, "rows are copied")
			return i, operation, release
		}
		expectCopy := func(i instance, operation string) {
			t.Helper()
			i.await(t, operation)
			_, made := i.bound(t, nil)
			copied := strings.Join(readAll(t, made.open(t), "SELECT CONCAT(table_name, ' ', column_name) "+
				"FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1"), ", ")
			if want := tables(c.Database); copied != want {
				t.Errorf("the copy has %s, the source %s", copied, want)
			}
			i.remove(t)
		}

		// A table is altered, and the only binding deleted.
		i, operation, release := begin()
		exec(t, admin, "ALTER TABLE `"+c.Database+"`.t11 ADD COLUMN extra INT", "DROP TABLE `"+c.Database+"`.t10")
		b.unbind(t).Expect(t, http.StatusOK)
		release()
		expectCopy(i, operation)

		// The source's server hangs, until an attempt has failed.
		i, operation, release = begin()
		thaw := server.Freeze(t)
		release()
		testdrive.Eventually(t, takeoverTime, "the broker tries again", func() (again bool) {
			records.scan(t, &again, "SELECT attempt > 0 OR state = 'failed' FROM task ORDER BY id DESC LIMIT 1")
			return again
		})
		thaw()
		expectCopy(i, operation)

		// There is no room for the copy.
		o := p.operator(env)
		o.run(t, 0, "drain", "shared-1")
		expectRefusal(t, p.newInstance(t, "shared-small").clone(t, source.id, nil), http.StatusBadRequest, "no room")
		o.run(t, 0, "drain", "--undo", "shared-1")

		// The source's server is killed, and comes back when the copy has failed.
		before := tables(c.Database)
		i, operation, release = begin()
		let := server.Crash(t)
		release()
		testdrive.Eventually(t, takeoverTime, "the cleanup waits for the source without a worker", func() (waits bool) {
			records.scan(t, &waits, "SELECT phase = 'cleanup' AND lease_owner IS NULL AND state = 'in progress' FROM task ORDER BY id DESC LIMIT 1")
			return waits
		})
		state, shown := i.AwaitOperation(t, i.id, operation)
		if says := shown[len(shown)-1]; state != "failed" ||
			!strings.Contains(says, "server of the service instance to copy did not answer") {
			t.Errorf("the copy %s after %q", state, shown)
		}
		let()
		testdrive.Eventually(t, testdrive.Patience, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
		i.remove(t)
		if after := tables(c.Database); after != before {
			t.Errorf("the source had %s, and has %s", before, after)
		}
		_, c = source.bound(t, nil)
		exec(t, c.open(t), "INSERT INTO t00 VALUES (2)")
		source.deprovision(t, now).Expect(t, http.StatusOK) // and with it the account that read
		expectTenants(t, admin, 0, 0)
		checkNothingLeft(t, env["LAUNCHER_DIR"])
	})
}

// TestCloneTooLarge copies an instance that is over its quota: only a plan that allows the data takes them.
func TestCloneTooLarge(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		p := startPlatform(t, private, quotaEnvironment(t, private))
		source := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		_, c := source.bound(t, nil)
		overfill(t, c.open(t), quotaSmall)
		// Files grow by steps, and may have the size of the quota exactly.
		exec(t, p.admin(t), "INSERT INTO `"+c.Database+"`.filler (content) VALUES (REPEAT('x', 8 << 20))")
		expectRefusal(t, p.newInstance(t, "shared-small").clone(t, source.id, nil), http.StatusBadRequest,
			"Delete data, or choose a larger plan.")
		i := p.newInstance(t, "shared-large")
		i.await(t, i.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation"))
		_, made := i.bound(t, nil)
		count := "SELECT COUNT(*) FROM filler"
		if got, want := read[int](t, made.open(t), count), read[int](t, c.open(t), count); got != want {
			t.Errorf("the copy has %d rows, the source %d", got, want)
		}
		if _, err := made.open(t).ExecContext(t.Context(), insertOne); err != nil {
			t.Errorf("the copy is below the quota of its plan: %v", err)
		}
	})
}

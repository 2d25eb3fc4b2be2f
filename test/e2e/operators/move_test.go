package operators

import (
	"crypto/rand"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultMove moves an instance whose transactions are open or prepared. The move waits for them, or is given up. The old
// place is kept for a day.
func TestFaultMove(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, private, env)
		d := p.Desk(t, env, faults)
		i := p.MakeOwn(t, "shared-small")
		b, c := i.Bound(t, nil)
		testdrive.MakeObjectsAs(t, c)
		db := c.Open(t)

		// Transactions of other instances do not block a move.
		other := p.MakeOwn(t, "shared-small")
		_, foreign := other.Bound(t, nil)
		rollBackOther := prepareXA(t, foreign.Open(t), "CREATE TABLE items (name VARCHAR(9))")

		// A move waits for the instance's own transactions, although there are prepared ones of others.
		faults.GoOn()
		tx, err := db.BeginTx(t.Context(), nil)
		if err == nil {
			_, err = tx.Exec("INSERT INTO items (name) VALUES ('open')")
		}
		require.NoError(t, err)
		operation := i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
		d.Tasks.Await(t, operation, "waits for the transaction", "description LIKE 'Waiting for a transaction that%'")
		reached, release := testdrive.HoldAt(t, faults, "update: copied")
		require.NoError(t, tx.Commit())
		testdrive.Receive(t, reached, "the copy")
		d.Run(t, 0, "tasks", "cancel", operation)
		release()
		state, says := d.Ended(t, operation)
		assert.True(t, state == "failed" && strings.HasPrefix(says, testdrive.ByOperator),
			"the move that waited for a transaction %s: %s", state, says)

		// A move waits for changes that are neither committed nor rolled back, and is given up in the end. The broker
		// finds them before the copy, or when nobody may write any more.
		for _, test := range []struct{ point, waits, since string }{
			{"", "Waiting for a transaction that", "locked since"},
			{"update: copied", "Waiting for the end of a prepared XA", "prepared since"},
		} {
			var rollBack func()
			if test.point == "" {
				rollBack = prepareXA(t, db)
				faults.GoOn()
			} else {
				reached, release = testdrive.HoldAt(t, faults, test.point)
			}
			operation = i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
			if test.point != "" {
				testdrive.Receive(t, reached, test.point)
				rollBack = prepareXA(t, db)
				release()
			}
			d.Tasks.Await(t, operation, "waits for the transaction", "description LIKE '"+test.waits+"%'")
			d.Tasks.Exec(t, "UPDATE task SET memory = jsonb_set(memory, '{"+test.since+`}', '"2020-01-01T00:00:00Z"')
				WHERE 'task_' || id = '`+operation+"'")
			d.ExpectEnd(t, operation, "failed", "XA ROLLBACK")
			rollBack()
			testdrive.Exec(t, db, "CALL add_item()")
		}

		// Once the copy is marked as finished, no cleanup removes it, although nobody was there to end the move in time.
		faults.Decide(testdrive.DieAt("update: hand over: done", 1))
		operation = i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
		p.Wait(t)
		d.Tasks.Exec(t, `UPDATE task SET memory = jsonb_set(memory, '{frozen since}', '"2020-01-01T00:00:00Z"')
			WHERE 'task_' || id = '`+operation+"'")
		faults.GoOn()
		testdrive.ExpireLeases(t, d.Tasks.Pool)
		p = testdrive.StartPlatform(t, private, env)
		i.Platform, b.Platform, other.Platform, d.Platform = p, p, p, p
		i.Await(t, operation)
		moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))

		// The old place is kept for some hours.
		removeFormer := func() { testdrive.RunScheduled(t, d.Tasks, "remove-former-places") }
		removeFormer()
		testdrive.ExpectTenants(t, d.AdminDB, 2, 2)
		age := func(by string) {
			d.Tasks.Exec(t, "UPDATE instance SET moved_at = moved_at - interval '"+by+"'")
			d.Tasks.Exec(t, "UPDATE binding SET created_at = created_at - interval '"+by+"'")
		}
		age("23 h")
		removeFormer()
		testdrive.ExpectTenants(t, d.AdminDB, 2, 2)
		age("61 min")
		metrics := p.Scrape(t)
		assert.Equal(t, "1", metrics["mysql_broker_former_places"])
		assert.NotEqual(t, "0", metrics["mysql_broker_former_place_overdue_seconds"])
		removeFormer()
		testdrive.ExpectTenants(t, d.AdminDB, 1, 1) // of the other instance
		err = db.PingContext(t.Context())
		assert.EqualValues(t, 1045, testdrive.ErrorNumber(err), "a login at the old address, whose hours are over: %v", err)
		testdrive.Exec(t, moved.Open(t), "CALL add_item()")
		rollBackOther()
		other.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
		i.Remove(t)
		testdrive.ExpectTenants(t, d.AdminDB, 0, 0)
		testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	})
}

// prepareXA prepares an XA transaction that has changed the table items, and ends its session, as a client does that
// forgets it. It returns a function that rolls the transaction back.
func prepareXA(t *testing.T, db *sql.DB, before ...string) (rollBack func()) {
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	id := "'" + rand.Text() + "'"
	testdrive.Exec(t, conn, append(before, "XA START "+id, "INSERT INTO items (name) VALUES ('xa')", "XA END "+id,
		"XA PREPARE "+id)...)
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	return func() { testdrive.Exec(t, db, "XA ROLLBACK "+id) }
}

// TestFaultMoveThawGivenUp moves an instance that is over its quota, cancels that while nobody may write, and gives up the
// step that gives the privileges back. The broker gives them back later: at first only those to delete, and once enough
// is deleted, those to write.
func TestFaultMoveThawGivenUp(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	d := p.Desk(t, env, faults)
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Overfill(t, db, testdrive.QuotaSmall)

	gates := testdrive.Hold(t, faults, "update: copy: done", "update: compare: begins")
	operation := i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
	testdrive.Receive(t, gates[0].Reached, "rows are copied")
	assert.Regexp(t, `^Copying the data: \d+ of \d+ MiB \(\d+ %\)`, i.Poll(t, "?operation="+operation).String("description"))
	gates[0].Release()
	testdrive.Receive(t, gates[1].Reached, "nobody may write")
	assert.EqualValues(t, testdrive.Denied, testdrive.RefusalOf(t, db, "DELETE FROM filler"),
		"a DELETE during the move: error")
	d.Run(t, 0, "tasks", "cancel", operation)
	enough := d.Failing("thaw")
	gates[1].Release()
	d.Tasks.Await(t, operation, "cannot give the privileges back", "last_error LIKE '%step thaw%'")
	testdrive.Eventually(t, "the step has had all its attempts", func() (over bool) {
		d.Tasks.Exec(t, "UPDATE task SET attempt = 1000, run_at = now() WHERE state = 'in progress' AND kind = 'update'")
		d.Tasks.Scan(t, &over, "SELECT count(*) = 0 FROM task WHERE state = 'in progress' AND kind = 'update'")
		return over
	})
	enough()
	testdrive.Eventually(t, "data can be deleted", func() bool { return testdrive.ErrorOf(t, db, "DELETE FROM filler") == nil })
	testdrive.AwaitAllowed(t, db)
}

// TestFaultCloneOfLostSource copies an instance while its server is killed, and while it is deleted. What becomes of the
// copy is said in a sentence, and the source stays as it was. What is copied beside changes, package transfer tests.
func TestFaultCloneOfLostSource(t *testing.T) {
	t.Parallel()
	server := testdrive.StartCrashable(t, servers.Any(t).Flavour)
	env := testdrive.Environment(t, server.MySQL)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, server.MySQL, env)
	admin, records := p.Admin(t), testdrive.OpenTasks(t, env)
	source := p.MakeOwn(t, "shared-small")
	_, c := source.Bound(t, nil)
	db := c.Open(t)
	for n := range 12 { // workers are at some when the first is copied
		testdrive.Exec(t, db, fmt.Sprintf("CREATE TABLE t%02d AS SELECT 1 AS id", n))
	}
	begin := func() (testdrive.Instance, string, func()) {
		i := p.OwnInstance(t, "dedicated-small")
		reached, release := testdrive.HoldAt(t, faults, "provision: copied")
		operation := i.Clone(t, source.ID, nil).Operation(t)
		testdrive.Receive(t, reached, "rows are copied")
		return i, operation, release
	}

	// The source's server is killed, and comes back when the copy has failed.
	before := testdrive.Contents(t, c)
	i, operation, release := begin()
	let := server.Crash(t)
	release()
	records.Until(t, "the cleanup waits for the source without a worker",
		"SELECT phase = 'cleanup' AND lease_owner IS NULL AND state = 'in progress' FROM task ORDER BY id DESC LIMIT 1")
	i.AwaitFailure(t, operation, "server of the service instance to copy did not answer")
	let()
	testdrive.Eventually(t, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
	i.Remove(t)
	testdrive.ExpectContents(t, "the source", c, before)

	// The source is deleted, and with it the account that reads.
	i, operation, release = begin()
	source.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	release()
	i.AwaitFailure(t, operation, "was deleted")
	i.Remove(t)
	testdrive.ExpectTenants(t, admin, 0, 0)
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
}

package operators

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	testdrive.Eventually(t, testdrive.TakeoverTime, "the cleanup waits for the source without a worker", func() (waits bool) {
		records.Scan(t, &waits, "SELECT phase = 'cleanup' AND lease_owner IS NULL AND state = 'in progress' FROM task ORDER BY id DESC LIMIT 1")
		return waits
	})
	i.AwaitFailure(t, operation, "server of the service instance to copy did not answer")
	let()
	testdrive.Eventually(t, limits.Stuck, "the server is back", func() bool { return admin.PingContext(t.Context()) == nil })
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

// TestCloneTooLarge copies an instance that is over its quota: only a plan that allows the data takes them.
func TestCloneTooLarge(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		p := testdrive.StartPlatform(t, private, testdrive.QuotaEnvironment(t, private))
		source := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := source.Bound(t, nil)
		testdrive.Overfill(t, c.Open(t), testdrive.QuotaSmall)
		// Files grow by steps, and may have the size of the quota exactly.
		testdrive.Exec(t, p.Admin(t), "INSERT INTO `"+c.Database+"`.filler (content) VALUES (REPEAT('x', 8 << 20))")
		testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Clone(t, source.ID, nil), http.StatusBadRequest,
			"Delete data, or choose a larger plan.")
		i := p.NewInstance(t, "shared-large")
		i.Await(t, i.Clone(t, source.ID, nil).Operation(t))
		_, made := i.Bound(t, nil)
		count := "SELECT COUNT(*) FROM filler"
		got, want := testdrive.Read[int](t, made.Open(t), count), testdrive.Read[int](t, c.Open(t), count)
		assert.Equal(t, want, got, "the copy has %d rows, the source %d", got, want)
		_, err := made.Open(t).ExecContext(t.Context(), testdrive.InsertOne)
		assert.NoError(t, err, "the copy is below the quota of its plan")
	})
}

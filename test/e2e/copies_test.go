package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// testClone copies an instance beside itself, to a server of its own, and back to a shared one.
func testClone(t *testing.T, p testdrive.Platform) {
	shared, c := testdrive.Cloneable(t, p, "shared-small")
	copied := p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, copied.Clone(t, shared.ID, body{"space_guid": "another-space"}), http.StatusBadRequest,
		"There is no service instance "+shared.ID+" in this space.")
	testdrive.ExpectError(t, copied.Provision(t, testdrive.Sync, body{"context": testdrive.CloudFoundry, "parameters": body{"clone_from": shared.ID}}),
		"AsyncRequired")
	w := testdrive.StartWriter(t, c)
	operation := copied.Clone(t, shared.ID, nil).Operation(t)
	copied.Await(t, operation)
	w.GoesOn(t)
	copied.Clone(t, shared.ID, nil).Expect(t, http.StatusOK)
	testdrive.ExpectClone(t, copied)
	own := p.NewInstance(t, "dedicated-small")
	own.Await(t, own.Clone(t, shared.ID, nil).Operation(t))
	testdrive.ExpectClone(t, own)
	assert.Len(t, testdrive.AccountsOf(t, p, c), 1, "the source has the accounts")
	back := p.NewInstance(t, "shared-large")
	back.Await(t, back.Clone(t, own.ID, body{"parameters": body{"clone_from": own.ID,
		"bootstrap": "LOCK TABLES items WRITE; DELETE FROM items WHERE name = 'ADDED';"}}).Operation(t))
	testdrive.ExpectClone(t, back)
	shared.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK) // the copies do not depend on it
	_, c = copied.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CALL add_item()")
}

// testBootstrapProgress holds up the SQL that follows copies, until users read what is done. Meanwhile, another copy on
// the same server ends, although there are no more than two at a time: SQL has no turn.
func testBootstrapProgress(t *testing.T, p testdrive.Platform) {
	source, _ := testdrive.Cloneable(t, p, "shared-small")
	holder, err := p.Admin(t).Conn(t.Context())
	require.NoError(t, err)
	defer holder.Close()
	testdrive.Exec(t, holder, "DO GET_LOCK('"+source.ID+"', 0)")
	held := map[string]testdrive.Instance{} // by their operations
	for range 2 {
		i := p.NewInstance(t, "shared-small")
		operation := i.Clone(t, source.ID, body{"parameters": body{"clone_from": source.ID,
			"bootstrap": "DO GET_LOCK('" + source.ID + "', 600)"}}).Operation(t)
		testdrive.Eventually(t, "users read that the SQL runs", func() bool {
			says := i.Poll(t, "?operation="+operation).String("description")
			return strings.HasPrefix(says, "Running the SQL of the parameter bootstrap")
		})
		held[operation] = i
	}
	other := p.NewInstance(t, "shared-small")
	other.Await(t, other.Clone(t, source.ID, nil).Operation(t))
	testdrive.Exec(t, holder, "DO RELEASE_LOCK('"+source.ID+"')")
	for operation, i := range held {
		i.Await(t, operation)
	}
}

// testBootstrap runs SQL in new databases.
func testBootstrap(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-small")
	testdrive.ExpectError(t, i.Provision(t, testdrive.Sync, body{"parameters": body{"bootstrap": "SELECT 1"}}), "AsyncRequired")
	i.Await(t, i.Provision(t, testdrive.Async, body{"parameters": body{"bootstrap": "CREATE TABLE t (s VARCHAR(20)); -- a; comment\n" +
		"INSERT INTO t VALUES ('a;b');\nDELIMITER //\nCREATE PROCEDURE p() BEGIN DELETE FROM t; INSERT INTO t VALUES ('p'); END//\n" +
		"DELIMITER ;\nCALL p()"}}).Operation(t))
	_, c := i.Bound(t, nil)
	assert.Equal(t, []string{"p"}, testdrive.ReadAll(t, c.Open(t), "SELECT s FROM t"), "the table")
	testdrive.Exec(t, c.Open(t), "CALL p()")
	testBootstrapProgress(t, p)
	failing := p.NewInstance(t, "shared-small")
	const secret = "not-for-the-log"
	state, shown := failing.AwaitOperation(t, failing.ID, failing.Provision(t, testdrive.Async, body{"parameters": body{
		"bootstrap": "CREATE TABLE t (id INT); CREATE VIEW v AS SELECT * FROM mysql." + secret}}).Operation(t))
	says := shown[len(shown)-1]
	assert.True(t, state == "failed" && strings.Contains(says, "Statement 2") && strings.Contains(says, "CREATE VIEW"),
		"%s after %q", state, shown)
	assert.False(t, strings.Contains(p.Log(), secret), "the log quotes the parameter")
}

// testMove moves an instance to a dedicated server and back while an application writes.
func testMove(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
	b, old := i.Bound(t, nil)
	testdrive.MakeObjectsAs(t, old)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "dedicated-small"), "AsyncRequired")
	w, readsEnd := testdrive.StartWriter(t, old, testdrive.ConnectionLost, testdrive.StatementInterrupted), startReader(t, old)
	shown := i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
	assert.Contains(t, shown[len(shown)-1], "cf bind-service", "the last description")
	readsEnd()
	written := w.Stop(t)

	// The binding has another address, and the same account and password.
	moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	assert.True(t, moved.Port != old.Port && moved.Username == old.Username && moved.Password == old.Password,
		"the binding's credentials are %s@%s:%d", moved.Username, moved.Hostname, moved.Port)
	testdrive.ExpectWritten(t, written, moved)
	testdrive.ExpectSame(t, old, moved)
	_, err := old.Open(t).Exec("INSERT INTO items (name) VALUES ('late')")
	assert.EqualValues(t, 1142, testdrive.ErrorNumber(err), "a write at the old address: %v", err)
	fetched := i.Fetch(t).Expect(t, http.StatusOK)
	assert.True(t, testdrive.Field(fetched.Body, "metadata", "attributes", "bindings_to_renew") != nil,
		"the instance does not tell of its former address: %s", fetched.Raw)

	// The old place goes with its bindings, and the data can be moved back.
	testdrive.ExpectRefusal(t, i.UpdatePlan(t, testdrive.Async, "shared-small"), http.StatusUnprocessableEntity, "bindings")
	testdrive.Exec(t, moved.Open(t), "CALL add_item()")
	b.Unbind(t).Expect(t, http.StatusOK)
	b, own := i.Bound(t, nil)
	i.Await(t, i.UpdateWhenFree(t, "shared-small"))
	back := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	testdrive.ExpectSame(t, own, back)
	testdrive.Exec(t, back.Open(t), "CALL add_item()")
}

// startReader reads items again and again, and returns a function that fails the test if a read was refused.
func startReader(t *testing.T, c testdrive.Credentials) (end func()) {
	ctx, cancel := context.WithCancel(t.Context())
	db, refused := c.Open(t), make(chan error, 1)
	go func() {
		defer close(refused)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, err := db.ExecContext(ctx, "SELECT COUNT(*) FROM items")
			switch testdrive.ErrorNumber(err) {
			case 1044, 1045, 1142, 1143:
				refused <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return func() {
		cancel()
		assert.NoError(t, <-refused, "a read was refused")
	}
}

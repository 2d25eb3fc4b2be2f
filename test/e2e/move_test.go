package e2e

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

// testMove moves an instance to a dedicated server and back while an application writes.
func testMove(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
	b, old := i.Bound(t, nil)
	testdrive.MakeObjectsAs(t, old)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "dedicated-small"), "AsyncRequired")
	w, readsEnd := testdrive.StartWriter(t, old), startReader(t, old)
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
	t.Helper()
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
		t.Helper()
		cancel()
		assert.NoError(t, <-refused, "a read was refused")
	}
}

package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

func testDedicated(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "dedicated-small")
	parameters := body{"parameters": body{"collation": "utf8mb4_bin"}}
	testdrive.ExpectError(t, i.Provision(t, testdrive.Sync, parameters), "AsyncRequired")
	release := p.HoldLaunches(t)
	operation := i.Provision(t, testdrive.Async, parameters).Operation(t)
	r := i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	assert.True(t, r.String("state") == "in progress" && r.String("description") != "", "the first poll: %s", r.Raw)
	assert.Equal(t, "2", r.Header.Get("Retry-After"))
	assert.Equal(t, operation, i.Provision(t, testdrive.Async, parameters).Operation(t), "the repeated request started")
	i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusConflict)
	testdrive.ExpectError(t, i.NewBinding().Bind(t, nil), "ConcurrencyError")
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "ConcurrencyError")
	i.Fetch(t).Expect(t, http.StatusNotFound)
	release()
	i.Await(t, operation)
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Async, parameters), http.StatusOK)

	b, c := i.Bound(t, nil)
	checkTLS(t, c)
	checkLogins(t, c)
	testdrive.Open(t, c.Plain(t)).Close()
	assert.Equal(t, "utf8mb4_bin", testdrive.Read[string](t, c.Open(t), "SELECT @@collation_database"), "the collation")
	testdrive.UseAsApplication(t, c)

	// The plan is changed. The data and the binding must outlive the server's restart.
	const bufferPool = "SELECT @@innodb_buffer_pool_size"
	before := testdrive.Read[int](t, c.Open(t), bufferPool)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), "AsyncRequired")
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "dedicated-large"), "AsyncRequired")
	i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large").Operation(t))
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), http.StatusOK)

	db := c.Open(t)
	after := testdrive.Read[int](t, db, bufferPool)
	assert.True(t, after > before, "the buffer pool had %d bytes and has %d", before, after)
	assert.Equal(t, 3, testdrive.Read[int](t, db, "SELECT COUNT(*) FROM items"), "the rows that are left")
	r = i.Fetch(t)
	assert.True(t, testdrive.Field(r.Body, "parameters", "collation") == "utf8mb4_bin" && r.String("plan_id") != i.PlanID,
		"the instance is now %s", r.Raw)
	assert.True(t, i.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK)) == c, "the credentials changed")

	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectError(t, i.Deprovision(t, testdrive.Sync), "AsyncRequired")
	deletion := i.Deprovision(t, testdrive.Async).Operation(t)
	i.Await(t, deletion)
	i.Await(t, deletion)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)
	i.Fetch(t).Expect(t, http.StatusNotFound)
	assert.Error(t, testdrive.Connect(t, c.Fields(t)).PingContext(t.Context()), "the server is still there")
}

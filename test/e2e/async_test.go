package e2e

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

var asyncScenarios = []scenario{
	{"operations that are not there", testUnknownOperations},
	{"platforms without tokens", testNoToken},
}

// Cloud Controller polls on for days after a 404 and stops at a 400.
func testUnknownOperations(t *testing.T, p testdrive.Platform) {
	i, other := p.NewInstance(t, "shared-async"), p.NewInstance(t, "shared-async")
	operation := i.Provision(t, testdrive.Async, nil).Operation(t)
	assert.Regexp(t, `^task_[1-9][0-9]*$`, operation)
	i.Await(t, operation)
	foreign := other.Provision(t, testdrive.Async, nil).Operation(t)
	other.Await(t, foreign)
	for _, unknown := range []string{foreign, "task_999999999", "task_0", "task_", "task_1x", "garbage", "%27--"} {
		testdrive.ExpectRefusal(t, i.Poll(t, "?operation="+unknown), 400)
	}
	testdrive.ExpectRefusal(t, i.Poll(t, "?service_id=no-such-service&operation="+operation), 400)
	i.Poll(t, "?service_id="+i.ServiceID+"&plan_id="+i.PlanID+"&operation="+operation).Expect(t, http.StatusOK)
	p.NewInstance(t, "shared-async").Poll(t, "?operation="+operation).Expect(t, http.StatusBadRequest)
}

// Some platforms keep no tokens, and poll with the name of an operation or with nothing.
func testNoToken(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-async")
	i.Await(t, i.Provision(t, testdrive.Async, nil).Operation(t))
	i.Await(t, "provision")
	i.Await(t, "")
	i.Poll(t, "").Expect(t, http.StatusOK)
	testdrive.ExpectRefusal(t, i.Poll(t, "?operation=deprovision"), 400)
	i.Remove(t)
	i.Await(t, "deprovision")
	i.Await(t, "")
}

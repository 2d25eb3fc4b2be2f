package e2e

import (
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

var asyncScenarios = []scenario{
	{"shared-async in the background", testInBackground},
	{"operations that are not there", testUnknownOperations},
	{"platforms without tokens", testNoToken},
}

var token = regexp.MustCompile(`^task_[1-9][0-9]*$`)

func testInBackground(t *testing.T, p testdrive.Platform) {
	i := p.NewInstance(t, "shared-async")
	r := i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted)
	if !token.MatchString(r.String("operation")) {
		t.Fatalf("the operation is %q", r.String("operation"))
	}
	i.Await(t, r.String("operation"))
	testdrive.ExpectEmpty(t, i.Provision(t, testdrive.Async, nil), http.StatusOK)
	_, c := i.Bound(t, nil)
	testdrive.UseAsApplication(t, c)

	r = i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted)
	deletion := r.String("operation")
	i.Await(t, deletion)
	assert.False(t, testdrive.DatabaseExists(t, p, c.Database), "the database is still there")
	testdrive.ExpectRefused(t, c.Fields(t))
	i.Await(t, deletion) // Cloud Controller may ask again and must not read a failure
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)
}

// Cloud Controller polls on for days after a 404 and stops at a 400.
func testUnknownOperations(t *testing.T, p testdrive.Platform) {
	i, other := p.NewInstance(t, "shared-async"), p.NewInstance(t, "shared-async")
	operation := i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation")
	i.Await(t, operation)
	foreign := other.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation")
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
	i.Await(t, i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusAccepted).String("operation"))
	i.Await(t, "provision")
	i.Await(t, "")
	i.Poll(t, "").Expect(t, http.StatusOK)
	testdrive.ExpectRefusal(t, i.Poll(t, "?operation=deprovision"), 400)
	i.Remove(t)
	i.Await(t, "deprovision")
	i.Await(t, "")
}

// Every poll has a description of the progress, from the first one on, also of operations that requests wait for.
func testPollsHaveDescriptions(t *testing.T, p testdrive.Platform) {
	release := testdrive.Stall(t, p.Admin(t))
	waits, i := p.OwnInstance(t, "shared-small"), p.OwnInstance(t, "shared-async")
	answer := waits.Begin("PUT", waits.Path(), waits.ProvisionBody(nil))
	testdrive.Eventually(t, limits.Stuck, "the provision that somebody waits for has begun", func() bool {
		r := waits.Poll(t, "?operation=provision")
		if r.Status != http.StatusOK {
			return false
		}
		assert.True(t, r.String("state") == "in progress" && r.String("description") == "Creating the service instance",
			"a poll is answered %s", r.Raw)
		return true
	})
	operation := i.BeginProvision(t)
	r := i.Poll(t, "?operation="+operation)
	assert.NotEmpty(t, r.String("description"), "the first poll is answered %s", r.Raw)
	release()
	testdrive.Receive(t, answer, "the answer to the provision").Expect(t, http.StatusCreated)
	i.Await(t, operation)
	i.Remove(t)
	waits.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}

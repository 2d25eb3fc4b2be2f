package e2e

import (
	"net/http"
	"regexp"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var asyncScenarios = []scenario{
	{"shared-async in the background", testInBackground},
	{"shared-async in the request", testInRequest},
	{"operations that are not there", testUnknownOperations},
	{"platforms without tokens", testNoToken},
}

var token = regexp.MustCompile(`^task_[1-9][0-9]*$`)

func testInBackground(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-async")
	r := i.provision(t, later, nil).Expect(t, http.StatusAccepted)
	if !token.MatchString(r.String("operation")) {
		t.Fatalf("the operation is %q", r.String("operation"))
	}
	i.await(t, r.String("operation"))
	expectEmpty(t, i.provision(t, later, nil), http.StatusOK)
	_, c := i.bound(t, nil)
	useAsApplication(t, c)

	r = i.deprovision(t, later).Expect(t, http.StatusAccepted)
	deletion := r.String("operation")
	i.await(t, deletion)
	if databaseExists(t, p, c.Database) {
		t.Error("the database is still there")
	}
	expectRefused(t, c.fields(t))
	i.await(t, deletion) // Cloud Controller may ask again and must not read a failure
	expectEmpty(t, i.deprovision(t, later), http.StatusGone)
}

func testInRequest(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-async")
	expectEmpty(t, i.provision(t, now, nil), http.StatusCreated)
	_, c := i.bound(t, nil)
	c.open(t)
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
}

// Cloud Controller polls on for days after a 404 and stops at a 400.
func testUnknownOperations(t *testing.T, p platform) {
	i, other := p.newInstance(t, "shared-async"), p.newInstance(t, "shared-async")
	operation := i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation")
	i.await(t, operation)
	foreign := other.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation")
	other.await(t, foreign)
	for _, unknown := range []string{foreign, "task_999999999", "task_0", "task_", "task_1x", "garbage", "%27--"} {
		expectRefusal(t, i.poll(t, "?operation="+unknown), 400)
	}
	expectRefusal(t, i.poll(t, "?service_id=no-such-service&operation="+operation), 400)
	i.poll(t, "?service_id="+i.serviceID+"&plan_id="+i.planID+"&operation="+operation).Expect(t, http.StatusOK)
	p.newInstance(t, "shared-async").poll(t, "?operation="+operation).Expect(t, http.StatusBadRequest)
}

// Some platforms keep no tokens, and poll with the name of an operation or with nothing.
func testNoToken(t *testing.T, p platform) {
	i := p.newInstance(t, "shared-async")
	i.await(t, i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation"))
	i.await(t, "provision")
	i.await(t, "")
	i.poll(t, "").Expect(t, http.StatusOK)
	expectRefusal(t, i.poll(t, "?operation=deprovision"), 400)
	i.remove(t)
	i.await(t, "deprovision")
	i.await(t, "")
}

// Every poll has a description of the progress, from the first one on, also of operations that requests wait for.
func TestPollsHaveDescriptions(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		p := startPlatform(t, private, testdrive.Environment(t, private))
		release := stall(t, p.admin(t))
		waits, i := p.ownInstance(t, "shared-small"), p.ownInstance(t, "shared-async")
		answer := waits.Begin("PUT", waits.path(), waits.provisionBody(nil))
		testdrive.Eventually(t, testdrive.Patience, "the provision that somebody waits for has begun", func() bool {
			r := waits.poll(t, "?operation=provision")
			if r.Status != http.StatusOK {
				return false
			}
			if r.String("state") != "in progress" || r.String("description") != "Creating the service instance" {
				t.Errorf("a poll is answered %s", r.Raw)
			}
			return true
		})
		operation := i.begin(t)
		if r := i.poll(t, "?operation="+operation); r.String("description") == "" {
			t.Errorf("the first poll is answered %s", r.Raw)
		}
		release()
		testdrive.Receive(t, answer, "the answer to the provision").Expect(t, http.StatusCreated)
		i.await(t, operation)
		i.remove(t)
		waits.deprovision(t, now).Expect(t, http.StatusOK)
	})
}

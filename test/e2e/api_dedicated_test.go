package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

var dedicatedScenarios = []scenario{
	{"dedicated needs a platform that polls", testAsyncRequired},
	{"dedicated from provision to deprovision", testDedicated},
}

func testAsyncRequired(t *testing.T, p platform) {
	i := p.newInstance(t, "dedicated-small")
	expectError(t, i.provision(t, now, nil), "AsyncRequired")
	expectError(t, i.deprovision(t, now), "AsyncRequired")
	expectEmpty(t, i.deprovision(t, later), http.StatusGone)
}

func testDedicated(t *testing.T, p platform) {
	i := p.newInstance(t, "dedicated-small")
	parameters := body{"parameters": body{"collation": "utf8mb4_bin"}}
	release := p.holdLaunches(t)
	operation := i.provision(t, later, parameters).Expect(t, http.StatusAccepted).String("operation")
	checkWhileProvisioning(t, i, parameters, operation)
	release()
	i.await(t, operation)
	expectEmpty(t, i.provision(t, later, parameters), http.StatusOK)

	b, c := i.bound(t, nil)
	checkDedicatedLogin(t, c)
	useAsApplication(t, c)
	grow(t, i, b, c)
	unbindAndDeprovision(t, i, b, c)
}

// checkWhileProvisioning checks the responses to a platform between the 202 and the end.
func checkWhileProvisioning(t *testing.T, i instance, parameters body, operation string) {
	t.Helper()
	r := i.poll(t, "?operation="+operation).Expect(t, http.StatusOK)
	if r.String("state") != "in progress" || r.Header.Get("Retry-After") != "2" {
		t.Errorf("the first poll: %s, Retry-After %q", r.Raw, r.Header.Get("Retry-After"))
	}
	again := i.provision(t, later, parameters).Expect(t, http.StatusAccepted)
	if again.String("operation") != operation {
		t.Errorf("the repeated request started %s, the first %s", again.String("operation"), operation)
	}
	i.provision(t, later, nil).Expect(t, http.StatusConflict)
	expectError(t, i.newBinding().bind(t, nil), "ConcurrencyError")
	expectError(t, i.updatePlan(t, later, "dedicated-large"), "ConcurrencyError")
	i.fetch(t).Expect(t, http.StatusNotFound)
}

func checkDedicatedLogin(t *testing.T, c credentials) {
	t.Helper()
	checkAliases(t, c)
	checkTLS(t, c)
	checkLogins(t, c)
	open(t, c.plain(t)).Close()
	if got := read[string](t, c.open(t), "SELECT @@collation_database"); got != "utf8mb4_bin" {
		t.Errorf("the collation is %s", got)
	}
}

// grow changes the plan; the data and the binding must outlive the server's restart.
func grow(t *testing.T, i instance, b binding, c credentials) {
	t.Helper()
	const bufferPool = "SELECT @@innodb_buffer_pool_size"
	before := read[int](t, c.open(t), bufferPool)
	expectError(t, i.updatePlan(t, now, "shared-large"), "AsyncRequired")
	expectError(t, i.updatePlan(t, now, "dedicated-large"), "AsyncRequired")
	i.await(t, i.updatePlan(t, later, "dedicated-large").Expect(t, http.StatusAccepted).String("operation"))
	expectEmpty(t, i.updatePlan(t, later, "dedicated-large"), http.StatusOK)

	db := c.open(t)
	if after := read[int](t, db, bufferPool); after <= before {
		t.Errorf("the buffer pool had %d bytes and has %d", before, after)
	}
	if n := read[int](t, db, "SELECT COUNT(*) FROM fruit"); n != 3 {
		t.Errorf("%d rows are left", n)
	}
	if r := i.fetch(t); field(r.Body, "parameters", "collation") != "utf8mb4_bin" || r.String("plan_id") == i.planID {
		t.Errorf("the instance is now %s", r.Raw)
	}
	if i.credentials(t, b.fetch(t).Expect(t, http.StatusOK)) != c {
		t.Error("the credentials changed")
	}
}

func unbindAndDeprovision(t *testing.T, i instance, b binding, c credentials) {
	t.Helper()
	expectEmpty(t, b.unbind(t), http.StatusOK)
	expectRefused(t, c.fields(t))
	expectError(t, i.deprovision(t, now), "AsyncRequired")
	deletion := i.deprovision(t, later).Expect(t, http.StatusAccepted).String("operation")
	i.await(t, deletion)
	i.await(t, deletion)
	expectEmpty(t, i.deprovision(t, later), http.StatusGone)
	i.fetch(t).Expect(t, http.StatusNotFound)
	if connect(t, c.fields(t)).PingContext(t.Context()) == nil {
		t.Error("the server is still there")
	}
}

// TestDeleteDuringCreate has a broker of its own, so that whatever the launcher has left is this test's.
func TestDeleteDuringCreate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, server, env)
		i := p.newInstance(t, "dedicated-small")
		started, release := holdAt(t, faults, "launch: process started")
		creation := i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, started, "the server is started")
		deletion := i.deprovision(t, later).Expect(t, http.StatusAccepted).String("operation")
		if deletion == creation {
			t.Error("the deletion has the creation's token")
		}
		release()
		i.await(t, deletion)
		r := i.poll(t, "?operation="+creation).Expect(t, http.StatusOK)
		if r.String("state") != "failed" || !strings.Contains(r.String("description"), "Cancelled") {
			t.Errorf("the creation ended as %s", r.Raw)
		}
		checkNothingLeft(t, env["LAUNCHER_DIR"])
		expectEmpty(t, i.deprovision(t, later), http.StatusGone)

		i.await(t, i.provision(t, later, nil).Expect(t, http.StatusAccepted).String("operation"))
		_, c := i.bound(t, nil)
		c.open(t)
	})
}

// checkNothingLeft looks for directories and processes of dedicated servers.
func checkNothingLeft(t *testing.T, launcherDir string) {
	t.Helper()
	instances := filepath.Join(launcherDir, "instances")
	for _, pattern := range []string{filepath.Join(instances, "*"), filepath.Join(launcherDir, "trash", "*")} {
		if left, err := filepath.Glob(pattern); err != nil || len(left) > 0 {
			t.Errorf("left over: %q %v", left, err)
		}
	}
	if left := testdrive.Processes(t, instances); len(left) > 0 {
		t.Errorf("processes are left over: %v", left)
	}
}

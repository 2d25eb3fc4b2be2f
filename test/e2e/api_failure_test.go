package e2e

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFailedCreate fails a creation for good: the collation has a plausible name and no server knows it.
func TestFailedCreate(t *testing.T) {
	onePlatform(t, func(t *testing.T, p platform, env map[string]string) {
		i := p.newInstance(t, "dedicated-small")
		wrong := body{"parameters": body{"collation": "utf8mb4_klingon_ci"}}
		create := func() string {
			operation := i.provision(t, later, wrong).Expect(t, http.StatusAccepted).String("operation")
			if state, _ := i.AwaitOperation(t, i.id, operation); state != "failed" {
				t.Fatalf("the creation %s", state)
			}
			if last := i.poll(t, "?operation="+operation).String("description"); !strings.Contains(last, "collation") {
				t.Errorf("the developer reads %q", last)
			}
			checkNothingLeft(t, env["LAUNCHER_DIR"])
			return operation
		}
		first := create()
		i.fetch(t).Expect(t, http.StatusNotFound) // as before it was asked for
		expectRefusal(t, i.newBinding().bind(t, nil), http.StatusBadRequest, "Delete")
		i.provision(t, later, nil).Expect(t, http.StatusConflict)
		if again := create(); again == first { // as Korifi does, which sends the request again instead of polling
			t.Error("a repeated request was answered with the creation that had failed")
		}
		i.remove(t)
		expectEmpty(t, i.deprovision(t, later), http.StatusGone)
	})
}

// TestRemovedPlan removes a plan from the catalog: its instances still work and can be deleted.
func TestRemovedPlan(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		before := startPlatform(t, server, env)
		i := before.provisioned(t, "shared-async", nil)
		b, c := i.bound(t, nil)

		env["CATALOG"] = catalogWithout(t, "shared-async")
		after := startPlatform(t, server, env)
		i.platform, b.platform = after, after
		c.open(t)
		expectRefusal(t, i.newBinding().bind(t, nil), http.StatusBadRequest, "plan_id")
		expectEmpty(t, b.unbind(t), http.StatusOK)
		expectEmpty(t, i.deprovision(t, later), http.StatusOK)
		_, planID := testdrive.Plan(t, "shared-async")
		r := i.poll(t, "?operation=deprovision&service_id="+i.serviceID+"&plan_id="+planID).Expect(t, http.StatusOK)
		if r.String("state") != "succeeded" {
			t.Errorf("the deletion is %s", r.Raw)
		}
		expectEmpty(t, i.deprovision(t, later), http.StatusGone)
		expectEmpty(t, b.unbind(t), http.StatusGone)
	})
}

// A platform that did not learn of a change of plan names the former plan for ever, even after it was removed from the
// catalog.
func TestRemovedPlanOfAnUpdate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		before := startPlatform(t, server, env)
		i := before.provisioned(t, "shared-async", nil)
		b, _ := i.bound(t, nil)
		expectEmpty(t, i.updatePlan(t, now, "shared-small"), http.StatusOK)
		// Tasks are forgotten after some time, what the platform knows is not. They are given to another instance rather
		// than deleted: a PostgreSQL that lacks tasks of the last minute was restored from a backup.
		openTasks(t, env).exec(t, "UPDATE task SET instance_id = 'another' WHERE instance_id = '"+i.id+"'")

		env["CATALOG"] = catalogWithout(t, "shared-async")
		after := startPlatform(t, server, env)
		i.platform, b.platform = after, after
		expectRefusal(t, i.newBinding().bind(t, nil), http.StatusBadRequest, "plan_id")
		query := "?service_id=" + i.serviceID + "&plan_id="
		i.Do(t, "GET", i.path()+query+i.planID, nil).Expect(t, http.StatusOK)
		b.Do(t, "GET", b.path()+query+i.planID, nil).Expect(t, http.StatusOK)
		for _, path := range []string{i.path(), b.path()} {
			for _, wrong := range []string{"", "no-such-plan"} {
				expectRefusal(t, i.Do(t, "DELETE", path+query+wrong, nil), http.StatusBadRequest, "plan_id")
			}
		}
		expectRefusal(t, i.Do(t, "DELETE", i.path()+"?service_id=another&plan_id="+i.planID, nil), http.StatusBadRequest,
			"service_id")
		stranger := after.newInstance(t, "shared-small")
		expectRefusal(t, stranger.Do(t, "DELETE", stranger.path()+query+i.planID, nil), http.StatusBadRequest, "plan_id")

		expectEmpty(t, b.unbind(t), http.StatusOK)
		expectEmpty(t, b.unbind(t), http.StatusGone)
		expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	})
}

// TestPlanRemovedMidway removes the plan of an instance from the catalog while the instance is created: the task waits
// for a broker that knows the plan, and operators see that. A cancellation undoes what was done.
func TestPlanRemovedMidway(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	before := startPlatform(t, server, env)
	i := before.ownInstance(t, "dedicated-large")
	release := before.holdLaunches(t)
	operation := i.begin(t)
	before.Kill(t)
	release()
	testdrive.ExpireLeases(t, openTasks(t, env).pool)

	env["CATALOG"] = catalogWithout(t, "dedicated-large")
	after := startPlatform(t, server, env)
	i = i.via(after)
	o := after.operator(env)
	testdrive.Eventually(t, testdrive.Patience, "the task says what it lacks", func() bool {
		return strings.Contains(o.run(t, 0, "tasks", operation).Stdout, "is not in the catalog")
	})
	o.run(t, 0, "tasks", "cancel", operation)
	testdrive.Eventually(t, testdrive.Patience, "the task is undone", func() bool {
		return i.poll(t, "?operation="+operation).Expect(t, http.StatusOK).String("state") == "failed"
	})
	checkNothingLeft(t, env["LAUNCHER_DIR"])
	i.remove(t)
}

package operators

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultPlanRemovedMidway removes the plan of an instance from the catalog while the instance is created: the task waits
// for a broker that knows the plan, and operators see that. A cancellation undoes what was done.
func TestFaultPlanRemovedMidway(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	before := testdrive.StartPlatform(t, server, env)
	i := before.OwnInstance(t, "dedicated-large")
	release := before.HoldLaunches(t)
	operation := i.BeginProvision(t)
	before.Kill(t)
	release()
	testdrive.ExpireLeases(t, testdrive.OpenTasks(t, env).Pool)

	env["CATALOG"] = testdrive.CatalogWithout(t, "dedicated-large")
	after := testdrive.StartPlatform(t, server, env)
	i = i.Via(after)
	o := after.Operator(env)
	testdrive.Eventually(t, limits.Stuck, "the task says what it lacks", func() bool {
		return strings.Contains(o.Run(t, 0, "tasks", operation).Stdout, "is not in the catalog")
	})
	o.Run(t, 0, "tasks", "cancel", operation)
	testdrive.Eventually(t, limits.Stuck, "the task is undone", func() bool {
		return i.Poll(t, "?operation="+operation).Expect(t, http.StatusOK).String("state") == "failed"
	})
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	i.Remove(t)
}

package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// TestFailedCreate fails a creation for good: the collation has a plausible name and no server knows it.
func TestFailedCreate(t *testing.T) {
	p, env := testdrive.OnePlatform(t)
	i := p.NewInstance(t, "dedicated-small")
	wrong := body{"parameters": body{"collation": "utf8mb4_klingon_ci"}}
	create := func() string {
		operation := i.Provision(t, testdrive.Async, wrong).Operation(t)
		i.AwaitFailure(t, operation, "collation")
		testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
		return operation
	}
	first := create()
	i.Fetch(t).Expect(t, http.StatusNotFound) // as before it was asked for
	testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, nil), http.StatusBadRequest, "Delete")
	i.Provision(t, testdrive.Async, nil).Expect(t, http.StatusConflict)
	// As Korifi does, which sends the request again instead of polling.
	assert.NotEqual(t, first, create(), "a repeated request was answered with the creation that had failed")
	i.Remove(t)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Async), http.StatusGone)
}

// Instances of a plan that was removed from the catalog still work and can be deleted. One that was being created waits
// for a broker that knows the plan, which operators see, or is undone if they cancel that. A platform that did not learn
// of a change of plan names the former plan for ever.
func TestRemovedPlan(t *testing.T) {
	before, env := testdrive.OnePlatform(t)
	i, kept := before.MakeOwn(t, "shared-async"), before.MakeOwn(t, "shared-async")
	b, c := i.Bound(t, nil)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	// Tasks are forgotten after some time, what the platform knows is not. They are given to another instance rather
	// than deleted: a PostgreSQL that lacks tasks of the last minute was restored from a backup.
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE task SET instance_id = 'another' WHERE instance_id = '"+i.ID+"'")

	half := before.OwnInstance(t, "dedicated-large")
	release := before.HoldLaunches(t)
	operation := half.BeginProvision(t)
	before.Kill(t)
	release()
	testdrive.ExpireLeases(t, testdrive.OpenTasks(t, env).Pool)

	env["CATALOG"] = testdrive.CatalogWithout(t, "shared-async", "dedicated-large")
	after := testdrive.StartPlatform(t, before.Server, env)
	i.Platform, b.Platform, kept.Platform = after, after, after
	c.Open(t)
	testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, nil), http.StatusBadRequest, "plan_id")
	query := "?service_id=" + i.ServiceID + "&plan_id="
	i.Do(t, "GET", i.Path()+query+i.PlanID, nil).Expect(t, http.StatusOK)
	b.Do(t, "GET", b.Path()+query+i.PlanID, nil).Expect(t, http.StatusOK)
	for _, path := range []string{i.Path(), b.Path()} {
		for _, wrong := range []string{"", "no-such-plan"} {
			testdrive.ExpectRefusal(t, i.Do(t, "DELETE", path+query+wrong, nil), http.StatusBadRequest, "plan_id")
		}
	}
	testdrive.ExpectRefusal(t, i.Do(t, "DELETE", i.Path()+"?service_id=another&plan_id="+i.PlanID, nil), http.StatusBadRequest,
		"service_id")
	stranger := after.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, stranger.Do(t, "DELETE", stranger.Path()+query+i.PlanID, nil), http.StatusBadRequest, "plan_id")

	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, b.Unbind(t), http.StatusGone)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	testdrive.ExpectEmpty(t, kept.Deprovision(t, testdrive.Sync), http.StatusOK)
	kept.Poll(t, query+kept.PlanID+"&operation=deprovision").Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, kept.Deprovision(t, testdrive.Async), http.StatusGone)

	o, half := after.Operator(env), half.Via(after)
	testdrive.Eventually(t, "the task says what it lacks", func() bool {
		return strings.Contains(o.Run(t, 0, "tasks", operation).Stdout, "is not in the catalog")
	})
	o.Run(t, 0, "tasks", "cancel", operation)
	half.AwaitFailure(t, operation)
	testdrive.CheckNothingLeft(t, env["LAUNCHER_DIR"])
	half.Remove(t)
}

// An object store that cannot be used is told at the start, by /readyz, by the doctor, and once it can be used again. A
// directory is never created: what should be mounted there may be missing.
func TestObjectStoreMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "not-mounted")
	p, env := testdrive.OnePlatform(t, "BACKUP_STORE", "file://"+root)
	p.AwaitLog(t, "use of the object store failed")
	r := p.Do(t, "GET", "/readyz", nil).Expect(t, http.StatusOK)
	assert.True(t, r.String("status") == "degraded" && r.String("object_store") == "unusable",
		"a broker without its object store says %s", r.Raw)
	out := p.Operator(env).Run(t, 1, "doctor").Stdout
	assert.True(t, strings.Contains(out, "unreachable   object store") && strings.Contains(out, "file://"+root),
		"the doctor says %s", out)
	_, err := os.Stat(root)
	assert.ErrorIs(t, err, fs.ErrNotExist, "the directory was created")
	require.NoError(t, os.Mkdir(root, 0o700))
	p.Operator(env).Run(t, 0, "doctor")
	all, err := os.ReadDir(root)
	assert.True(t, err == nil && len(all) == 0, "the probe has left %v, %v", all, err)
}

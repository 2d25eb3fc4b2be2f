package backups

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// PostgreSQL is restored from a backup. What was deleted after the backup is retained all the same, and what came back
// after it is not dropped.
func TestRecoverRetained(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = testdrive.CatalogRetaining(t)
	p := testdrive.StartPlatform(t, s, env)
	plans := []string{"shared-small", "dedicated-small"}
	was := map[string][]string{} // the contents of each shop, by instance
	create := func(plan string) testdrive.Instance {
		i := p.OwnInstance(t, plan)
		i.Create(t, cf(nil), http.StatusCreated)
		_, app := i.Bound(t, nil)
		testdrive.Exec(t, app.Open(t), shop...)
		was[i.ID] = shopContents(t, app)
		return i
	}
	undelete := func(i testdrive.Instance) {
		i.Create(t, cf(body{"parameters": body{"undelete": i.ID}}), http.StatusCreated)
	}

	var deleted, back, late []testdrive.Instance
	for _, plan := range plans {
		deleted = append(deleted, create(plan))
		i := create(plan)
		i.Delete(t)
		back = append(back, i)
	}
	backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	for n, plan := range plans {
		deleted[n].Delete(t)
		undelete(back[n])
		back[n].Bound(t, nil)
		i := create(plan)
		i.Delete(t)
		late = append(late, i)
	}
	testdrive.StopBroker(t, p)
	testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
	p = testdrive.StartPlatform(t, s, env)
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	shown := testdrive.RunRecover(t, env, 0)
	for _, i := range slices.Concat(deleted, late) {
		testdrive.ExpectLine(t, shown, "adopt", "retained data", i.ID)
	}
	for _, i := range back {
		testdrive.ExpectLine(t, shown, "adopt", "instance", i.ID)
	}
	testdrive.RunRecover(t, env, 0, "--apply")

	again := testdrive.RunRecover(t, env, 0)
	assert.False(t, strings.Contains(again, "retained data"), "recover is not done:\n%s", again)
	var kept []string
	for _, r := range p.Operator(env).Retained(t) {
		kept = append(kept, r.InstanceID)
	}
	for _, i := range slices.Concat(deleted, late) {
		i = i.Via(p)
		assert.True(t, slices.Contains(kept, i.ID), "what %s has left is not retained: %q", i.ID, kept)
		i.Fetch(t).Expect(t, http.StatusNotFound)
		undelete(i)
	}
	assert.Len(t, kept, 4, "retained")
	for _, i := range slices.Concat(deleted, late, back) {
		_, app := i.Via(p).Bound(t, nil)
		expectShop(t, app, was[i.ID])
	}
	expectHealthy(t, env)
}

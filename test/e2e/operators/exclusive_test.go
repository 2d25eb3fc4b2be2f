package operators

import (
	"net/http"
	"path/filepath"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An exclusive server is for one instance, of a plan that says so. A change of plan moves the data there, and back.
func TestExclusiveServer(t *testing.T) {
	t.Parallel()
	common := servers.Any(t)
	own := testdrive.StartCrashable(t, common.Flavour)
	described := testdrive.Described("own", own.MySQL)
	described["exclusive"] = true
	env := testdrive.Environment(t, common)
	env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described("common", common), described})
	env["CATALOG"] = testdrive.CatalogWith(t, filepath.Join(testdrive.Root(), "catalog.yml"), "shared-large", "exclusive: true")
	env["LAUNCHER"] = "none"
	p := testdrive.StartPlatform(t, common, env)
	o := p.Operator(env)
	on := func(server string, want ...string) {
		t.Helper()
		if got := o.IDs(t, "id", "instances", "--server", server); len(got) != len(want) || len(want) > 0 && got[0] != want[0] {
			t.Errorf("on %s: %q", server, got)
		}
	}

	first := p.Provisioned(t, "shared-large", nil)
	on("own", first.ID)
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-large").Provision(t, testdrive.Sync, nil), 400, "no room")
	ordinary := p.Provisioned(t, "shared-small", nil)
	on("common", ordinary.ID)
	testdrive.ExpectRefusal(t, ordinary.UpdatePlan(t, testdrive.Async, "shared-large"), 400, "no room")
	o.Run(t, 1, "move", ordinary.ID, "own")

	testdrive.ExpectEmpty(t, first.Deprovision(t, testdrive.Sync), http.StatusOK)
	b, before := ordinary.Bound(t, nil)
	testdrive.MakeObjectsAs(t, before)
	testdrive.ExpectError(t, ordinary.UpdatePlan(t, testdrive.Sync, "shared-large"), "AsyncRequired")
	ordinary.Await(t, ordinary.UpdatePlan(t, testdrive.Async, "shared-large").Expect(t, 202).String("operation"))
	on("own", ordinary.ID)
	testdrive.Exec(t, p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK)).Open(t), "CALL add_item()")
	b.Unbind(t).Expect(t, http.StatusOK)
	ordinary.Await(t, ordinary.UpdateWhenFree(t, "shared-small"))
	on("common", ordinary.ID)
}

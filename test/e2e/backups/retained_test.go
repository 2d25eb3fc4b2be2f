package backups

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Of two undeletes at once, one gets the data. An operator drops them.
func TestRetainedData(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = testdrive.CatalogRetaining(t)
	p := testdrive.StartPlatform(t, s, env)
	o := p.Operator(env)
	i := p.OwnInstance(t, "shared-small")
	i.Create(t, cf(nil), http.StatusCreated)
	_, app := i.Bound(t, nil)
	testdrive.Exec(t, app.Open(t), shop...)
	was := shopContents(t, app)
	i.Delete(t)
	all := o.Retained(t)
	require.True(t, len(all) == 1 && all[0].InstanceID == i.ID && all[0].Name == "shop" && all[0].AdoptedBy == "",
		"retained: %+v", all)

	back := cf(body{"parameters": body{"undelete": i.ID}})
	rivals := []testdrive.Instance{p.OwnInstance(t, "shared-small"), p.OwnInstance(t, "shared-large")}
	var asked []<-chan testdrive.Response
	for _, rival := range rivals {
		asked = append(asked, rival.Begin("PUT", rival.Path(), rival.ProvisionBody(back)))
	}
	var winner testdrive.Instance
	for n, answer := range asked {
		r := testdrive.Receive(t, answer, "the answer to an undelete")
		switch {
		case r.Status == http.StatusCreated && winner.ID == "":
			winner = rivals[n]
		case r.Status != http.StatusBadRequest || !strings.Contains(r.Raw, "just now") && !strings.Contains(r.Raw, "no deleted service instance"):
			t.Errorf("the other one: %d %s", r.Status, r.Raw)
		}
	}
	require.NotEmpty(t, winner.ID, "nobody got the data")
	_, app = winner.Bound(t, nil)
	expectShop(t, app, was)

	winner.Delete(t)
	all = o.Retained(t)
	require.Len(t, all, 1, "retained")
	// Its database is lost.
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE `"+app.Database+"`")
	found := testdrive.RunDoctor(t, env).Expect(t, 1).Stdout
	assert.True(t, strings.Contains(found, "missing") && strings.Contains(found, "retained purge "+all[0].ID),
		"the doctor says %s", found)
	lost := rivals[0].Provision(t, testdrive.Sync, cf(body{"parameters": body{"undelete": winner.ID}}))
	assert.True(t, lost.Status >= 400 && strings.Contains(lost.String("description"), "not on its server any more"),
		"an undelete of what was lost: %d %s", lost.Status, lost.Raw)
	o.Refuse(t, "add --yes", "retained", "purge", all[0].ID)
	o.Run(t, 0, "retained", "purge", "--yes", all[0].ID)
	entries := o.Audit(t, "--action", "purge", "--instance", winner.ID)
	assert.True(t, len(entries) == 1 && entries[0].Object == all[0].ID && entries[0].Platform == "operator",
		"the purge is recorded as %+v", entries)
	testdrive.Eventually(t, testdrive.TakeoverTime, "the data is dropped", func() bool { return len(o.Retained(t)) == 0 })
	expectNoDatabase(t, p, app.Database)
	rivals[0].Provision(t, testdrive.Sync, cf(body{"parameters": body{"undelete": winner.ID}})).Expect(t, http.StatusBadRequest)
	expectHealthy(t, env)
	var counted int
	testdrive.OpenTasks(t, env).Scan(t, &counted, "SELECT coalesce(sum(instances), 0) FROM server")
	assert.Equal(t, 0, counted, "the server is recorded to hold %d instances", counted)
}

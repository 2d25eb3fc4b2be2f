package operators

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Bindings that expire while no broker runs end when one starts. What recover does with them, package recovery tests.
func TestFaultExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	limited := func(ttl string) string {
		return testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "provisioner: shared,",
			"provisioner: shared, max_binding_ttl: "+ttl+","))
	}
	private := testdrive.Private(t, server.Flavour)
	env := testdrive.Environment(t, private)
	env["CATALOG"] = limited("30d")
	p := testdrive.StartPlatform(t, private, env)
	i := p.OwnInstance(t, "shared-small")
	i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, body{"parameters": body{"ttl": "31d"}}), 400, `"ttl"`, "30d")
	b := i.NewBinding()
	r := b.Bind(t, nil).Expect(t, http.StatusCreated)
	if at, _ := testdrive.BindingTimes(t, r); time.Until(at) < 29*24*time.Hour {
		t.Errorf("a binding without ttl expires at %v", at)
	}
	long, _ := i.Bound(t, body{"parameters": body{"ttl": "8h"}})
	var listed []struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	p.Operator(env).Read(t, &listed, "bindings", i.ID)
	assert.False(t, len(listed) != 2 || listed[0].ExpiresAt.IsZero() || listed[1].ExpiresAt.IsZero(),
		"the list of bindings has %+v", listed)
	missed, gone := i.Bound(t, body{"parameters": body{"ttl": "5s"}})
	p.Kill(t)
	tasks := testdrive.OpenTasks(t, env)
	testdrive.Eventually(t, limits.Stuck, "it has expired", func() (over bool) {
		tasks.Scan(t, &over, "SELECT count(*) = 1 FROM binding WHERE expires_at < now()")
		return over
	})
	env["CATALOG"] = limited("1h")
	p = testdrive.StartPlatform(t, private, env)
	i.Platform, missed.Platform = p, p
	successor := i.NewBinding().Bind(t, body{"predecessor_binding_id": long.BindingID}).Expect(t, http.StatusCreated)
	at, _ := testdrive.BindingTimes(t, successor)
	assert.True(t, time.Until(at) <= time.Hour,
		"after the maximum was lowered, the successor of a binding with 8h expires at %v", at)
	testdrive.Eventually(t, limits.Stuck, "it has ended", func() bool { return !testdrive.AccountExists(t, p, gone.Username) })
	p.AwaitLog(t, `"msg":"a service binding has expired"`)
	testdrive.ExpectEmpty(t, missed.Unbind(t), http.StatusOK)
}

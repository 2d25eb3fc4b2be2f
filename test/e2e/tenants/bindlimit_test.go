package tenants

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestBindingLimit creates as many bindings as the plan allows: without the limit, the bindings of one instance could take
// all connections of a server. That many requests at once create no more, package provisioner tests.
func TestBindingLimit(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_bindings: 10",
		fmt.Sprintf("max_bindings: %d", bindLimit)))
	p := testdrive.StartPlatform(t, s, env)
	i := p.Provisioned(t, "shared-small", nil)
	var made []testdrive.Binding
	for range bindLimit {
		b, _ := i.Bound(t, nil)
		made = append(made, b)
	}
	refused := i.NewBinding()
	testdrive.ExpectError(t, refused.Bind(t, nil), "BindingLimitReached", "has 3 service bindings", "shared-small allows 3",
		"Delete one", "larger plan")
	// Cloud Controller sends this after a refusal of a code that it does not know. It must end nothing.
	testdrive.ExpectEmpty(t, refused.Unbind(t), http.StatusGone)
	made[0].Bind(t, nil).Expect(t, http.StatusOK) // a repeat needs no place
	expectBindings(t, i, bindLimit)
	if out := testdrive.Run(t, env, "servers", "shared-1").Expect(t, 0); !regexp.MustCompile(
		`(?m)^sold_connections:\s+` + strconv.Itoa(bindLimit*30) + "$").MatchString(out.Stdout) {
		t.Errorf("mysql-broker servers: %s", out.Stdout)
	}

	// An account that outlives its binding takes no place.
	definer := i.Credentials(t, made[0].Fetch(t).Expect(t, http.StatusOK))
	testdrive.Exec(t, definer.Open(t), "CREATE VIEW one AS SELECT 1 AS one")
	made[0].Unbind(t).Expect(t, http.StatusOK)
	n := testdrive.Read[int](t, p.Admin(t), "SELECT COUNT(*) FROM mysql.user WHERE user = ?", definer.Username)
	require.Equal(t, 1, n, "the account of the view's definer is there %d times", n)
	i.Bound(t, nil)
	testdrive.ExpectError(t, i.NewBinding().Bind(t, nil), "BindingLimitReached")

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	more, _ := i.Bound(t, nil)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), "PlanChangeNotSupported", "has 4 service bindings",
		"shared-small allows 3", "Delete 1")
	more.Unbind(t).Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	expectBindings(t, i, bindLimit)
}

// bindLimit is how many bindings an instance of shared-small may have.
const bindLimit = 3

// expectBindings fails the test unless the instance reports this number of bindings, and the limit.
func expectBindings(t *testing.T, i testdrive.Instance, want int) {
	t.Helper()
	r := i.Fetch(t).Expect(t, http.StatusOK)
	n, limit := testdrive.Field(r.Body, "metadata", "attributes", "bindings"), testdrive.Field(r.Body, "metadata", "attributes", "max_bindings")
	assert.True(t, n == float64(want) && limit == float64(bindLimit),
		"%v of %v bindings instead of %d of %d: %s", n, limit, want, bindLimit, r.Raw)
}

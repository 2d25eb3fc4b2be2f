package operators

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

// rotatedBinding is a row of `mysql-broker rotate-bindings --json`.
type rotatedBinding struct {
	InstanceID string `json:"instance_id"`
	ID, Result string
	AppGUID    string `json:"app_guid"`
}

// After a leak, the old credentials give no access. That what accounts have defined keeps working, and who gets the new
// password if a broker is killed, package stage tests.
func TestRotateBindings(t *testing.T) {
	p, env := testdrive.PrivatePlatform(t)
	o := p.Operator(env)
	i, other := p.OwnInstance(t, "shared-small"), p.OwnInstance(t, "shared-small")
	for _, x := range []testdrive.Instance{i, other} {
		x.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	}
	app := body{"bind_resource": body{"app_guid": "an-app"}}
	b, c := i.Bound(t, app)
	_, keyLogin := i.Bound(t, nil)
	shared := body{"bind_resource": body{"space_guid": "a-space-that-leaked"}}
	_, untouched := other.Bound(t, shared)
	busy := c.Open(t)
	ended := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
		ended <- err
	}()
	testdrive.AwaitTrue(t, p.Admin(t), `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
		WHERE user = ? AND info LIKE 'SELECT SLEEP%')`, c.Username)

	rotate := func(args ...string) (all []rotatedBinding) {
		o.Read(t, &all, append([]string{"rotate-bindings"}, args...)...)
		return all
	}
	shown := rotate("--instance", i.ID)
	for _, args := range [][]string{{"--space", "no-such-space"}, {"--instance", i.ID, "--created-before", "1d"}} {
		assert.Empty(t, rotate(args...), "%q", args)
	}
	for space, want := range map[string]int{"a-space": 3, "a-space-that-leaked": 1} {
		assert.Len(t, rotate("--space", space), want, "of %s", space)
	}
	if got := rotate("--server", "shared-1"); len(got) != 3 || len(shown) != 2 ||
		!slices.ContainsFunc(shown, func(r rotatedBinding) bool { return r.ID == b.BindingID && r.AppGUID == "an-app" }) {
		t.Errorf("of the instance %+v, of the server %+v", shown, got)
	}
	o.Refuse(t, "instance", "rotate-bindings")
	o.Refuse(t, "no service instance", "rotate-bindings", "--instance", "missing", "--apply")
	c.Open(t)
	for _, r := range rotate("--instance", i.ID, "--apply") {
		assert.True(t, r.Result == "changed" && r.InstanceID == i.ID, "%+v", r)
	}
	assert.Error(t, testdrive.Receive(t, ended, "the running query ends"), "the running query went on to its end")
	testdrive.ExpectRefused(t, c.Fields(t))
	testdrive.ExpectRefused(t, keyLogin.Fields(t))
	untouched.Open(t)
	next := i.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	again := i.Credentials(t, b.Bind(t, app).Expect(t, http.StatusOK))
	assert.True(t, again == next && next.Username == c.Username && next.Password != c.Password,
		"the repeated bind has other credentials than the fetched binding, or another account")

	next.Open(t)
	if got := o.Audit(t, "--action", "rotate", "--since", time.Now().Add(-time.Hour).Format(time.RFC3339)); len(got) != 2 ||
		got[0].Platform != "operator" || got[0].Result != "succeeded" {
		t.Errorf("the audit has %+v", got)
	}
}

package operators

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/testdrive"
)

// The audit has each request with its user and its result, and contains no secret. Old entries are deleted.
func TestAudit(t *testing.T) {
	t.Parallel()
	private, env := testdrive.PrivateEnvironment(t)
	env["KEEP_AUDIT_DAYS"] = "2"
	p := testdrive.StartPlatform(t, private, env)
	o := p.Operator(env)
	const canary = "canary-in-a-request"
	p.Seen.Add(canary)
	as := func(platform, user string) map[string]string {
		return map[string]string{"X-Broker-API-Request-Identity": "request-of-" + platform,
			"X-Broker-API-Originating-Identity": platform + " " + base64.StdEncoding.EncodeToString([]byte(user))}
	}
	cf := as("cloudfoundry", `{"user_id":"jane-guid"}`)
	kubernetes := as("kubernetes", `{"username":"duke","uid":"c2dde242","email":"duke@example.com","groups":["a"]}`)

	i := p.OwnInstance(t, "shared-small")
	p.DoWith(t, "PUT", i.Path(), i.ProvisionBody(body{"context": body{"platform": "cloudfoundry", "note": canary}}), cf).
		Expect(t, http.StatusCreated)
	b := i.NewBinding()
	p.DoWith(t, "PUT", b.Path(), b.With(body{"parameters": body{"role": "read-only"}}), kubernetes).
		Expect(t, http.StatusCreated)
	p.DoWith(t, "PUT", b.Path(), b.With(body{"parameters": body{"role": canary}}), kubernetes).
		Expect(t, http.StatusBadRequest)
	p.DoWith(t, "DELETE", b.Deletion(b.Path(), testdrive.Sync), nil, as("cloudfoundry", "no JSON")).Expect(t, http.StatusOK)
	o.Run(t, 0, "drain", "shared-1")
	o.Run(t, 0, "drain", "--undo", "shared-1")
	p.DoWith(t, "DELETE", i.Deletion(i.Path(), testdrive.Sync), nil, nil).Expect(t, http.StatusOK)

	of := o.Audit(t, "--instance", i.ID)
	want := []testdrive.AuditLine{{Platform: "", Action: "deprovision"}, {Action: "unbind", BindingID: b.BindingID,
		RequestID: "request-of-cloudfoundry"},
		{Platform: "kubernetes", UserID: "c2dde242", UserName: "duke", Email: "duke@example.com", Action: "bind",
			BindingID: b.BindingID, RequestID: "request-of-kubernetes"},
		{Platform: "cloudfoundry", UserID: "jane-guid", Action: "provision", RequestID: "request-of-cloudfoundry"}}
	require.Equal(t, len(want), len(of), "of the instance: %+v", of)
	for n, l := range of {
		assert.True(t, l.RequestID != "" && strings.HasPrefix(l.Task, "task_"), "no request or task: %+v", l)
		want[n].InstanceID, want[n].Plan, want[n].Result = i.ID, "shared-small", "succeeded"
		want[n].Task, l.RequestID = l.Task, strings.TrimSuffix(l.RequestID, " ")
		if n == 0 {
			want[n].RequestID = l.RequestID // the broker's own
		}
		assert.Equal(t, want[n], l, "%+v\nwant %+v", l, want[n])
	}
	drains := slices.DeleteFunc(o.Audit(t, "--since", "1h"), func(l testdrive.AuditLine) bool { return l.Object != "shared-1" })
	if len(drains) != 2 || drains[0].Action != "undrain" || drains[1].Action != "drain" ||
		drains[0].Platform != "operator" || drains[0].UserName == "" || drains[0].Host == "" {
		t.Errorf("of the operator: %+v", drains)
	}
	got := o.Audit(t, "--user", "duke@example.com", "--limit", "1")
	assert.True(t, len(got) == 1 && got[0] == of[2], "of the user: %+v", got)
	assert.Contains(t, o.Run(t, 0, "audit", "--action", "bind").Stdout, "kubernetes duke", "the table")
	var text string
	ts := testdrive.OpenTasks(t, env)
	ts.Scan(t, &text, "SELECT string_agg(a::text, ' ') FROM audit a")
	p.Seen.Check(t, "the audit", text)
	ts.Exec(t, "UPDATE audit SET at = at - interval '3 days' WHERE action = 'drain'")
	testdrive.RunScheduled(t, ts, "remove-old-tasks")
	assert.Empty(t, o.Audit(t, "--action", "drain"), "after more days than entries are kept")
}

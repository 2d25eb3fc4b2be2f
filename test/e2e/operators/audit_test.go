// Package operators tests what operators do and see, with the compiled broker: commands, the dashboard, upgrades,
// rotation, moves, and what follows when brokers, servers or PostgreSQL fail meanwhile.
package operators

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// The audit has each request with its user and its result, and contains no secret. Old entries are deleted.
func TestAudit(t *testing.T) {
	p, env := testdrive.PrivatePlatform(t, "KEEP_AUDIT_DAYS", "2")
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
	assert.True(t, len(drains) == 2 && drains[0].Action == "undrain" && drains[1].Action == "drain" &&
		drains[0].Platform == "operator" && drains[0].UserName != "" && drains[0].Host != "", "of the operator: %+v", drains)
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

// What a platform asks for can be followed from its own trace through the request, the task and its steps to each
// statement, and nothing secret is on the way.
func TestTraces(t *testing.T) {
	traces := testdrive.StartCollector(t)
	p, _ := testdrive.OnePlatform(t, "OTEL_EXPORTER_OTLP_ENDPOINT", traces.URL, "OTEL_BSP_SCHEDULE_DELAY", "50") // milliseconds
	i := p.OwnInstance(t, "shared-small")
	const trace, platform = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	p.DoWith(t, "PUT", i.Path(), i.ProvisionBody(nil), map[string]string{
		"traceparent": "00-" + trace + "-" + platform + "-01"}).Expect(t, http.StatusCreated)
	b, c := i.Bound(t, nil)
	p.Seen.Add(c.Password)
	i.NewBinding().Bind(t, body{"parameters": body{"role": "none"}}).Expect(t, http.StatusBadRequest)
	b.Unbind(t).Expect(t, http.StatusOK)
	i.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)

	var spans []testdrive.Span
	testdrive.Eventually(t, "the trace of a deprovision", func() bool { // which has the one of the work on the task
		spans = traces.Spans()
		return slices.ContainsFunc(spans, func(s testdrive.Span) bool { return s.Name == "task deprovision" })
	})
	request := spanOf(t, spans, "PUT /v2/service_instances/{instance_id}")
	assert.True(t, hex.EncodeToString(request.TraceId) == trace && hex.EncodeToString(request.ParentSpanId) == platform,
		"the request is not in the platform's trace: %v", request)
	for name, want := range map[string]string{"http.response.status_code": "201", "url.path": i.Path()} {
		assert.Equal(t, want, request.Attribute(name), "%s of the request", name)
	}
	task := spanOf(t, spans, "task provision")
	assert.True(t, string(task.TraceId) == string(request.TraceId) && string(task.ParentSpanId) == string(request.SpanId),
		"the task is not a child of the request")
	expectStatement(t, spans, spanOf(t, spans, "step create database"), "mysql", "CREATE DATABASE")
	expectStatement(t, spans, request, "postgresql", "INSERT INTO task")
	expectStatement(t, spans, task, "postgresql", "UPDATE task SET state = $3")
	assert.Equal(t, "mysql-broker", request.Resource["service.name"], "the service is called")
	assert.Contains(t, p.AwaitLog(t, `"trace_id":"`+trace+`"`), i.ID, "the trace is that of another request in the log")
	for _, s := range spans {
		assert.False(t, len(s.ParentSpanId) == 0 && s.Kind != otlp.Span_SPAN_KIND_SERVER,
			"%q is nobody's request, and begins a trace", s.Name)
		p.Seen.Check(t, "a span", fmt.Sprint(s.Resource, s.Span))
	}
}

// spanOf is the last span of that name.
func spanOf(t *testing.T, spans []testdrive.Span, name string) testdrive.Span {
	found := slices.DeleteFunc(slices.Clone(spans), func(s testdrive.Span) bool { return s.Name != name })
	require.NotEmpty(t, found, "spans %q", name)
	return found[len(found)-1]
}

// expectStatement fails the test unless a statement with that text was sent to that kind of server, for which some other
// span may stand between it and the ancestor.
func expectStatement(t *testing.T, spans []testdrive.Span, ancestor testdrive.Span, system, text string) {
	parents := map[string]string{}
	for _, s := range spans {
		parents[string(s.SpanId)] = string(s.ParentSpanId)
	}
	below := func(id string) bool {
		for id != "" && id != string(ancestor.SpanId) {
			id = parents[id]
		}
		return id != ""
	}
	assert.True(t, slices.ContainsFunc(spans, func(s testdrive.Span) bool {
		return strings.Contains(s.Attribute("db.query.text")+s.Attribute("db.statement"), text) &&
			s.Attribute("db.system.name")+s.Attribute("db.system") == system && s.Kind == otlp.Span_SPAN_KIND_CLIENT &&
			below(string(s.ParentSpanId))
	}), "no statement %q to %s below %q", text, system, ancestor.Name)
}

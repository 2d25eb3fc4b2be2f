package task_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestTracedRequestsKeepWhatTheyHold(t *testing.T) {
	t.Parallel()
	got := task.Traced(t.Context(), json.RawMessage(`{"later": true}`))
	assert.Equal(t, `{"later": true}`, string(got), "without a trace: %s", got)
	ctx, span := sdk.NewTracerProvider().Tracer("test").Start(t.Context(), "request")
	traceparent := "00-" + span.SpanContext().TraceID().String() + "-" + span.SpanContext().SpanID().String() + "-01"
	for request, kept := range map[string]string{"": "", "{}": "", `{"plan":"p"}`: `"plan":"p",`} {
		assert.Equal(t, `{`+kept+`"trace":{"traceparent":"`+traceparent+`"}}`,
			string(task.Traced(ctx, json.RawMessage(request))), request)
	}
}

// Each attempt of a step is a span below the task's span, which is below the request's. Spans of failed attempts say
// so.
func TestSpansOfATask(t *testing.T) {
	t.Parallel()
	s, j := servers.Store(t), &journal{}
	recorded := tracetest.NewInMemoryExporter()
	tracer := sdk.NewTracerProvider(sdk.WithSyncer(recorded)).Tracer("test")
	ctx, request := tracer.Start(t.Context(), "request")
	request.End()
	inStep := task.Step{Name: "b", Do: func(ctx context.Context, _ *task.Run) error {
		_, span := tracer.Start(ctx, "statement")
		span.End()
		return nil
	}}
	r := startWith(t, s, task.Workflow{Steps: []task.Step{j.step("a", errBoom), inStep}}, task.Config{Tracer: tracer})
	end(t, s, record(t, s, store.NewTask{Request: task.Traced(ctx, nil)}).ID)
	r.Stop() // the spans have ended

	names := map[string]string{}
	for _, span := range recorded.GetSpans() {
		names[span.SpanContext.SpanID().String()] = span.Name
	}
	type span struct {
		name, parent string
		failed       bool
	}
	want := map[span]int{{"request", "", false}: 1, {"task provision", "request", false}: 2,
		{"step a", "task provision", true}: 1, {"step a", "task provision", false}: 1,
		{"step b", "task provision", false}: 1, {"statement", "step b", false}: 1}
	for _, s := range recorded.GetSpans() {
		want[span{s.Name, names[s.Parent.SpanID().String()], s.Status.Code == codes.Error}]--
		assert.True(t, s.SpanContext.TraceID() == request.SpanContext().TraceID(), "%q is in another trace", s.Name)
	}
	for s, missing := range want {
		assert.Equal(t, 0, missing, "%d of %+v are missing", missing, s)
	}
}

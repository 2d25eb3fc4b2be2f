package task_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A task counts as stalled unless it finishes steps, does more than before, or waits for its turn.
func TestStalled(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.OpenStore(t, url)
	records := testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url})
	anHourLater := func() {
		records.Exec(t, `UPDATE task SET created_at = created_at - interval '1 hour',
			progressed_at = progressed_at - interval '1 hour'`)
	}
	expect := func(after string, stalled bool) {
		stats, err := s.Tasks.Stats(t.Context())
		got := stats.Stalled > 30*time.Minute
		assert.True(t, err == nil && got == stalled && stats.Oldest >= stats.Stalled, "after %s: %+v, %v", after, stats, err)
	}
	attempts := 0
	first := task.Step{Name: "first", Do: func(ctx context.Context, run *task.Run) error {
		attempts++
		if attempts > 1 {
			expect("waiting for its turn", false)
			anHourLater()
			return nil
		}
		anHourLater()
		expect("an hour", true)
		for _, r := range []struct {
			sentence, work string
			done           uint64
			further        bool
		}{{"5 MiB", "copy", 5, true}, {"another sentence", "copy", 5, false}, {"an attempt begins anew", "copy", 3, false},
			{"6 MiB", "copy", 6, true}, {"other work begins", "compare", 1, true}} {
			anHourLater()
			assert.NoError(t, run.ReportDone(ctx, r.sentence, r.work, r.done))
			expect(r.sentence, !r.further)
		}
		anHourLater()
		assert.NoError(t, run.Advance(ctx, "a part is done"))
		expect("a part of the step", false)
		anHourLater()
		assert.NoError(t, run.ReportDone(ctx, "1 MiB of the next part", "copy", 1))
		expect("the beginning of the next part", false)
		anHourLater()
		assert.NoError(t, run.Report(ctx, "a sentence"))
		expect("a sentence without figures", true)
		assert.NoError(t, run.ReportWork(ctx, "others work"))
		expect("the work of others", false)
		anHourLater()
		return task.Queued(time.Millisecond, "Waiting")
	}}
	second := task.Step{Name: "second", Do: func(context.Context, *task.Run) error {
		expect("a step", false)
		return nil
	}}
	recorded := record(t, s, store.NewTask{})
	start(t, s, task.Workflow{Steps: []task.Step{first, second}})
	succeeds(t, s, recorded.ID)
}

// An outage of PostgreSQL is logged once when it begins and once when it ends, by a runner that has nothing to do. One
// that holds leases also logs that it cannot renew them.
func TestOutageIsLoggedOnce(t *testing.T) {
	t.Parallel()
	const beat = time.Second
	for _, tt := range []struct {
		name     string
		busy     bool
		ttl      time.Duration
		failures []string
	}{
		{"idle", false, 4 * beat, []string{"looking for tasks failed"}},
		{"with a lease", true, 40 * beat, []string{"looking for tasks failed", "lease renewal failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			proxy, url := testdrive.ProxyURL(t, servers.Postgres(t))
			var log logged.Text
			s, running, release := servers.OpenStore(t, url), make(chan bool, 1), make(chan bool)
			r := task.New(s, always(task.Workflow{Steps: []task.Step{hang(running, release)}}),
				task.Config{LeaseTTL: tt.ttl, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			t.Cleanup(r.Stop)
			defer close(release)
			if tt.busy {
				record(t, s, store.NewTask{})
				testdrive.Receive(t, running, "the task begins")
			}

			proxy.Refuse(true)
			proxy.Cut()
			began := time.Now()
			testdrive.Eventually(t, "the outage is reported, and goes on for some beats", func() bool {
				return !slices.ContainsFunc(tt.failures, func(f string) bool { return log.Count(f) == 0 }) &&
					time.Since(began) > 4*beat
			})
			assert.Equal(t, len(tt.failures), log.Count("level="), "lines:\n%s", &log) // and so each says one
			proxy.Refuse(false)
			testdrive.Eventually(t, "the end of the outage is reported", func() bool {
				return !slices.ContainsFunc(tt.failures, func(f string) bool {
					return log.Count(strings.TrimSuffix(f, "failed")+"works again") == 0
				})
			})
		})
	}
}

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
	s, j := parallel(t), &journal{}
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

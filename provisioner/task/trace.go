package task

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"mysql-broker/store"
)

// traceField is the field of a task's request with the trace that it belongs to, in the form of HTTP headers.
// https://www.w3.org/TR/trace-context/
const traceField = "trace"

// Traced adds the trace of ctx, if there is one, to the request of a new task. The process that runs the task continues
// the trace.
func Traced(ctx context.Context, request json.RawMessage) json.RawMessage {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return request
	}
	headers := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, headers)
	fields := map[string]any{}
	if len(request) > 0 {
		if err := json.Unmarshal(request, &fields); err != nil {
			return request
		}
	}
	fields[traceField] = headers
	with, _ := json.Marshal(fields) // cannot fail: it holds decoded JSON and strings
	return with
}

// traceOf returns ctx in the trace of the request that asked for a task.
func traceOf(ctx context.Context, t store.Task) context.Context {
	var request struct {
		Trace propagation.MapCarrier `json:"trace"`
	}
	if err := json.Unmarshal(t.Request, &request); err != nil {
		return ctx // finding the workflow reports the error
	}
	return propagation.TraceContext{}.Extract(ctx, request.Trace)
}

// traced begins the span of a task under one lease, if there is a tracer. The span ends with the lease.
func (r *Runner) traced(ctx context.Context, t store.Task) context.Context {
	if r.cfg.Tracer == nil {
		return ctx
	}
	ctx, _ = r.cfg.Tracer.Start(traceOf(ctx, t), "task "+t.Kind, trace.WithAttributes(
		attribute.String("mysql_broker.task", Token(t.ID)), attribute.Int64("mysql_broker.epoch", t.Epoch),
		attribute.String("mysql_broker.plan_id", t.PlanID), attribute.String("mysql_broker.instance_id", t.InstanceID),
		attribute.String("mysql_broker.binding_id", t.BindingID)))
	return ctx
}

var noSpan = trace.SpanFromContext(context.Background())

// traceStep begins the span of one attempt at a step.
func (x *execution) traceStep(step Step) (context.Context, trace.Span) {
	ctx := x.lease.ctx
	if x.runner.cfg.Tracer == nil {
		return ctx, noSpan
	}
	return x.runner.cfg.Tracer.Start(ctx, "step "+step.Name, trace.WithAttributes(
		attribute.String("mysql_broker.phase", x.task.Phase), attribute.Int("mysql_broker.attempt", x.task.Attempt)))
}

// end ends the span of an attempt, with the error that is logged.
func end(span trace.Span, err error) {
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

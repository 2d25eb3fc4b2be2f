// Package tracing sends traces to an OpenTelemetry collector.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"

	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/provisioner/periodic"
)

// ServiceName is how the broker is called in traces unless OTEL_SERVICE_NAME says otherwise.
const ServiceName = "mysql-broker"

// Start returns what makes spans and sends them. What they are called after, which are made and how many are sent at a
// time, the variables of OpenTelemetry's SDK say. Shut it down at the end; what it could not send by then is lost. A
// collector that cannot be reached is logged and slows nothing down.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*trace.TracerProvider, error) {
	exporter, err := otlptrace.New(ctx, &client{cfg: cfg})
	if err != nil {
		return nil, fmt.Errorf("prepare to send traces: %w", err)
	}
	// Later ones go before earlier ones.
	source, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", ServiceName), attribute.String("service.version", version.Version)),
		resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) { // a part of OTEL_RESOURCE_ATTRIBUTES, for example; the rest is there
		log.Warn("not all that describes this process to the receiver of traces can be used", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("describe this process to the receiver of traces: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(&reporting{exporter, periodic.Status{
		What: "sending traces", Meanwhile: "they are lost", Log: log}}),
		trace.WithResource(source)), nil
}

// reporting logs once that spans cannot be sent, and once that they can again. One goroutine at a time calls it.
type reporting struct {
	trace.SpanExporter
	status periodic.Status
}

// ExportSpans implements trace.SpanExporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	r.status.Report(context.WithoutCancel(ctx), err) // a collector that does not answer in time fails, too
	return nil
}

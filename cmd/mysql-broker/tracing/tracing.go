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
	"mysql-broker/outbound"
	"mysql-broker/provisioner/periodic"
)

// ServiceName is the broker's name in traces unless OTEL_SERVICE_NAME is set.
const ServiceName = "mysql-broker"

// Start returns a provider that creates spans and sends them. The variables of OpenTelemetry's SDK configure the
// service name, sampling and batches. Shut it down at the end; unsent spans are lost. If the collector is unreachable,
// that is logged and slows nothing down.
// https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*trace.TracerProvider, error) {
	exporter, err := otlptrace.New(ctx, &client{cfg,
		outbound.New(outbound.Options{URL: cfg.URL, Time: cfg.Timeout, Bytes: 1 << 20})})
	if err != nil {
		return nil, fmt.Errorf("prepare to send traces: %w", err)
	}
	// Later options take precedence.
	source, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(
		attribute.String("service.name", ServiceName), attribute.String("service.version", version.Version)),
		resource.WithFromEnv())
	if errors.Is(err, resource.ErrPartialResource) { // such as OTEL_RESOURCE_ATTRIBUTES; the rest is used
		log.Warn("some attributes that describe this process in traces are invalid", "error", err)
	} else if err != nil {
		return nil, fmt.Errorf("describe this process to the receiver of traces: %w", err)
	}
	return trace.NewTracerProvider(trace.WithBatcher(&reporting{exporter, periodic.Status{
		What: "sending traces", Meanwhile: "they are lost", Log: log}}),
		trace.WithResource(source)), nil
}

// reporting logs once when sending fails, and once when it works again. One goroutine at a time calls it.
type reporting struct {
	trace.SpanExporter
	status periodic.Status
}

// ExportSpans implements trace.SpanExporter.
func (r *reporting) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := r.SpanExporter.ExportSpans(ctx, spans)
	r.status.Report(context.WithoutCancel(ctx), err) // a timeout of the collector is also a failure
	return nil
}

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
	return trace.NewTracerProvider(trace.WithBatcher(&told{SpanExporter: exporter, log: log}),
		trace.WithResource(source)), nil
}

// told is an exporter that logs once that spans cannot be sent, and once that they can again. It is called by one
// goroutine at a time.
type told struct {
	trace.SpanExporter
	log     *slog.Logger
	failing bool
}

// ExportSpans implements trace.SpanExporter.
func (t *told) ExportSpans(ctx context.Context, spans []trace.ReadOnlySpan) error {
	err := t.SpanExporter.ExportSpans(ctx, spans)
	switch {
	case err != nil && !t.failing:
		t.log.Warn("traces cannot be sent; they are lost until they can", "error", err)
	case err == nil && t.failing:
		t.log.Info("traces can be sent again")
	}
	t.failing = err != nil
	return nil
}

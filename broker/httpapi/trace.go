package httpapi

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// traced creates a span for each request, in the platform's trace if it sends traceparent. Like the log line, the span
// contains no body, no query, and only the identities of the headers. https://www.w3.org/TR/trace-context/,
// https://opentelemetry.io/docs/specs/semconv/http/http-spans/
func traced(tracer trace.Tracer) middleware {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		c := callFrom(r.Context())
		ctx := propagation.TraceContext{}.Extract(c.Context, propagation.HeaderCarrier(r.Header))
		ctx, span := tracer.Start(ctx, methodLabel(r.Method), trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		c.Context, c.traceID = ctx, span.SpanContext().TraceID().String()
		next.ServeHTTP(w, r)
		describe(span, r, c)
	}
}

// describe adds attributes to the span after the response, with the names of OpenTelemetry's semantic conventions.
func describe(span trace.Span, r *http.Request, c *call) {
	span.SetName(methodLabel(r.Method) + " " + c.route)
	span.SetAttributes(attribute.String("http.request.method", methodLabel(r.Method)),
		attribute.String("http.route", c.route), attribute.String("url.path", clip(r.URL.Path)),
		attribute.Int("http.response.status_code", c.status), attribute.String("mysql_broker.request_id", c.info.ID))
	if c.reason != "" {
		span.SetAttributes(attribute.String("mysql_broker.reason", c.reason))
	}
	if c.status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, c.reason)
	}
}

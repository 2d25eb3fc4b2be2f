package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// observe logs one line for each request and counts it, after the response. The line contains no body, only the
// operation of the query, and only the identities of the headers.
func observe(log *slog.Logger, m *metrics) middleware {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(w, r)
		c := callFrom(r.Context())
		elapsed := time.Since(c.since)
		m.count(r.Method, c, elapsed)
		level := slog.LevelInfo
		if c.status >= http.StatusInternalServerError && !c.leftEarly { // its cause has a separate line
			level = slog.LevelError
		}
		log.LogAttrs(r.Context(), level, "request", c.attributes(r.Method, elapsed)...)
	}
}

func (c *call) attributes(method string, elapsed time.Duration) []slog.Attr {
	attributes := []slog.Attr{slog.String("method", clip(method)), slog.String("route", c.route),
		slog.Int("status", c.status), slog.Float64("duration_ms", float64(elapsed.Microseconds())/1000),
		slog.String("request_id", c.info.ID)}
	if c.leftEarly {
		attributes = append(attributes, slog.Bool("client_left", true))
	}
	for _, optional := range [...]slog.Attr{
		slog.String("correlation_id", c.info.CorrelationID),
		slog.String("api_version", c.info.APIVersion),
		slog.String("instance_id", c.instanceID),
		slog.String("binding_id", c.bindingID),
		slog.String("task", c.operation),
		slog.String("platform", c.info.Platform),
		slog.String("user_id", c.info.UserID),
		slog.String("reason", c.reason),
		slog.String("trace_id", c.traceID),
	} {
		if optional.Value.String() != "" {
			attributes = append(attributes, optional)
		}
	}
	return attributes
}

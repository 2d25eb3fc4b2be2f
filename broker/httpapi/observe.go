package httpapi

import (
	"log/slog"
	"net/http"
	"time"
)

// observe logs one line and counts one request, after the answer is sent. The line holds no body, no query but the
// operation, and no header but the identities.
func observe(log *slog.Logger, m *metrics) middleware {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := time.Now()
			next.ServeHTTP(w, r)
			elapsed := time.Since(start)

			c := callFrom(r.Context())
			m.observe(c.route, r.Method, c.status, elapsed)
			level := slog.LevelInfo
			if c.status >= http.StatusInternalServerError {
				level = slog.LevelError
			}
			log.LogAttrs(r.Context(), level, "request", requestAttrs(r.Method, c, elapsed)...)
		})
	}
}

func requestAttrs(method string, c *call, elapsed time.Duration) []slog.Attr {
	attrs := []slog.Attr{
		slog.String("method", clip(method)),
		slog.String("route", c.route),
		slog.Int("status", c.status),
		slog.Float64("duration_ms", float64(elapsed.Microseconds())/1000),
		slog.String("request_id", c.info.ID),
	}
	for _, optional := range []struct{ key, value string }{
		{"correlation_id", c.info.CorrelationID},
		{"api_version", c.info.APIVersion},
		{"instance_id", c.instanceID},
		{"binding_id", c.bindingID},
		{"operation", c.operation},
		{"platform", c.info.Platform},
		{"user_id", c.info.UserID},
		{"reason", c.reason},
	} {
		if optional.value != "" {
			attrs = append(attrs, slog.String(optional.key, optional.value))
		}
	}
	return attrs
}

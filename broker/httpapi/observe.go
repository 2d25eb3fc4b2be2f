package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// observe logs one line and counts one request, after the answer is sent. The line holds no body, no query but the
// operation, and no header but the identities.
func observe(log *slog.Logger, m *metrics) middleware {
	o := &observers{log: log.Handler(), metrics: m, known: map[outcome]*observer{}}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(w, r)
			c := callFrom(r.Context())
			o.of(outcome{r.Method, c.route, c.status, c.leftUnanswered}).observe(r.Context(), c, time.Now())
		})
	}
}

// outcome is what requests have in common that are counted together.
type outcome struct {
	method, route string
	status        int
	left          bool // the client closed the connection, or its half, before there was an answer
}

// observers keeps one observer for each outcome of a known method: looking up metrics by their labels and writing the
// outcome into every line takes longer than all else that there is to observing a request.
type observers struct {
	log     slog.Handler
	metrics *metrics
	mu      sync.RWMutex
	known   map[outcome]*observer
}

func (o *observers) of(out outcome) *observer {
	o.mu.RLock()
	known := o.known[out]
	o.mu.RUnlock()
	if known != nil {
		return known
	}
	made := &observer{level: slog.LevelInfo}
	if out.status >= http.StatusInternalServerError && !out.left { // else its cause has a line of its own
		made.level = slog.LevelError
	}
	attributes := []slog.Attr{slog.String("method", clip(out.method)), slog.String("route", out.route),
		slog.Int("status", out.status)}
	if out.left {
		attributes = append(attributes, slog.Bool("client_left", true))
	}
	made.log = o.log.WithAttrs(attributes)
	made.requests, made.duration = o.metrics.of(out)
	if methodLabel(out.method) == out.method { // clients can invent others without end
		o.mu.Lock()
		o.known[out] = made
		o.mu.Unlock()
	}
	return made
}

// observer logs and counts the requests of one outcome.
type observer struct {
	log      slog.Handler
	level    slog.Level
	requests prometheus.Counter
	duration prometheus.Observer
}

func (o *observer) observe(ctx context.Context, c *call, end time.Time) {
	elapsed := end.Sub(c.since)
	o.requests.Inc()
	o.duration.Observe(elapsed.Seconds())
	if !o.log.Enabled(ctx, o.level) {
		return
	}
	line := slog.NewRecord(end, o.level, "request", 0)
	line.AddAttrs(slog.Float64("duration_ms", float64(elapsed.Microseconds())/1000), slog.String("request_id", c.info.ID))
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
			line.AddAttrs(optional)
		}
	}
	_ = o.log.Handle(ctx, line) // as slog.Logger does
}

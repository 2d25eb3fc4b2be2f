package tracing

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// A collector that refuses is told of once, and so is that it takes spans again.
func TestCollectorThatRefuses(t *testing.T) {
	var refuses atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_SERVICE_NAME", "a name of the operator's")
	var log bytes.Buffer
	traces, err := Start(t.Context(), slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for _, refused := range []bool{true, true, false, false, true} {
		refuses.Store(refused)
		_, span := traces.Tracer("test").Start(t.Context(), "span")
		span.End()
		if err := traces.ForceFlush(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if err := traces.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if lost, again := strings.Count(log.String(), "cannot be sent"), strings.Count(log.String(), "can be sent again"); lost != 2 ||
		again != 1 {
		t.Errorf("told of %d outages and %d ends:\n%s", lost, again, log.String())
	}
}

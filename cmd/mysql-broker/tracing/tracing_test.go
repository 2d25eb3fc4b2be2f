package tracing

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sdk "go.opentelemetry.io/otel/sdk/trace"
)

// A collector that refuses spans is logged once, and once more when it accepts them again.
func TestCollectorThatRefuses(t *testing.T) {
	t.Parallel()
	var refuses atomic.Bool
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.True(t, r.Method == "POST" && r.URL.Path == "/v1/traces" && r.Header.Get("Api-Key") == "a key",
			"%s %s %v", r.Method, r.URL, r.Header)
		if refuses.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
	}))
	defer collector.Close()
	cfg, on, err := FromEnvironment(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": collector.URL,
			"OTEL_EXPORTER_OTLP_HEADERS": "api-key=a%20key"}[name]
	})
	require.True(t, err == nil && on, "%t, %v", on, err)
	var log bytes.Buffer
	traces, err := Start(t.Context(), cfg, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	for _, refused := range []bool{true, true, false, false, true} {
		refuses.Store(refused)
		_, span := traces.Tracer("test").Start(t.Context(), "span")
		span.End()
		assert.NoError(t, traces.ForceFlush(t.Context()))
	}
	assert.NoError(t, traces.Shutdown(t.Context()))
	lost, again := strings.Count(log.String(), "traces failed"), strings.Count(log.String(), "traces works again")
	assert.True(t, lost == 2 && again == 1, "told of %d outages and %d ends:\n%s", lost, again, log.String())
}

// A malformed resource attribute is logged and left out. The broker starts, and sends the other attributes.
func TestMalformedAttributes(t *testing.T) {
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test,malformed")
	var log bytes.Buffer
	traces, err := Start(t.Context(), Config{}, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	defer func() { assert.NoError(t, traces.Shutdown(t.Context())) }()
	assert.Contains(t, log.String(), "malformed", "the mistake is not named")
	_, span := traces.Tracer("test").Start(t.Context(), "span")
	told := span.(sdk.ReadOnlySpan).Resource().String()
	assert.True(t, strings.Contains(told, "deployment.environment=test") &&
		strings.Contains(told, "service.name="+ServiceName), "told: %s", told)
}

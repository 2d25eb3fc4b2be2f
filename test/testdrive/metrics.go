package testdrive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Metrics maps time series to values, both as Prometheus writes them.
type Metrics map[string]string

// Scrape reads /metrics, which is open to anyone.
func (b *Broker) Scrape(t testing.TB) Metrics {
	m := Metrics{}
	for line := range strings.Lines(b.Get(t, "/metrics")) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			m[line[:i]] = strings.TrimSpace(line[i:])
		}
	}
	return m
}

// ExpectFigures compares time series, written as Prometheus does, with what /metrics shows.
func ExpectFigures(t *testing.T, p Platform, want map[string]string) {
	assert.Empty(t, Differences(p.Scrape(t), want), "/metrics")
}

func Differences(shown Metrics, want map[string]string) (sentences []string) {
	for series, value := range want {
		if shown[series] != value {
			sentences = append(sentences, fmt.Sprintf("%s is %q instead of %q", series, shown[series], value))
		}
	}
	return sentences
}

type Prometheus struct {
	URL string
}

// StartPrometheus runs Prometheus with this configuration file until the test ends.
func StartPrometheus(t testing.TB, config string) *Prometheus {
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	b := StartProgram(t, nil, "prometheus", "--config.file="+path, "--storage.tsdb.path="+dir,
		"--web.listen-address="+address)
	b.AwaitLog(t, "Server is ready to receive web requests")
	return &Prometheus{URL: "http://" + address}
}

// Sample is one of the time series that a query yields, with its latest value.
type Sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as text
}

// Query evaluates an expression now. A malformed expression fails the test.
func (p *Prometheus) Query(t testing.TB, expression string) []Sample {
	var data struct{ Result []Sample }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expression), &data)
	return data.Result
}

type Rule struct {
	Name      string
	Query     string
	Health    string // "ok" if it could be evaluated
	LastError string
}

func (p *Prometheus) Rules(t testing.TB) (all []Rule) {
	var data struct{ Groups []struct{ Rules []Rule } }
	p.get(t, "/api/v1/rules", &data)
	for _, group := range data.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// get asks Prometheus's API. https://prometheus.io/docs/prometheus/latest/querying/api/
func (p *Prometheus) get(t testing.TB, path string, data any) {
	raw := get(t, p.URL+path)
	result := struct {
		Status string
		Data   any
	}{Data: data}
	err := json.Unmarshal([]byte(raw), &result)
	require.True(t, err == nil && result.Status == "success", "%s: %v %s", path, err, raw)
}

// Await waits until an expression has a result.
func (p *Prometheus) Await(t testing.TB, expression string) {
	Eventually(t, "Prometheus has "+expression, func() bool { return len(p.Query(t, expression)) > 0 })
}

// Collector takes traces as an OpenTelemetry collector does, by OTLP over HTTP, and keeps them.
// https://opentelemetry.io/docs/specs/otlp/#otlphttp
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span
}

type Span struct {
	*otlp.Span
	Resource map[string]string // describes the process that sent it
}

// Attribute returns an attribute's value as text, or "" if the span does not have it.
func (s Span) Attribute(name string) string {
	for _, a := range s.Attributes {
		if a.Key == name {
			return text(a.Value)
		}
	}
	return ""
}

// StartCollector listens until the test ends.
func StartCollector(t testing.TB) *Collector {
	c := &Collector{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		assert.NoError(t, c.take(r), "traces cannot be read")
	}))
	t.Cleanup(server.Close)
	c.URL = server.URL
	return c
}

func (c *Collector) take(r *http.Request) error {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	var request collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(raw, &request); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range request.ResourceSpans {
		resource := map[string]string{}
		for _, a := range of.Resource.Attributes {
			resource[a.Key] = text(a.Value)
		}
		for _, scope := range of.ScopeSpans {
			for _, span := range scope.Spans {
				c.spans = append(c.spans, Span{Span: span, Resource: resource})
			}
		}
	}
	return nil
}

func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

func text(v *common.AnyValue) string {
	switch v := v.Value.(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_IntValue:
		return fmt.Sprint(v.IntValue)
	}
	return v.String()
}

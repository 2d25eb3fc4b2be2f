package testdrive

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Prometheus is a test's own Prometheus server.
type Prometheus struct {
	URL string
}

// StartPrometheus runs Prometheus with this configuration file until the test ends.
func StartPrometheus(t testing.TB, config string) *Prometheus {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", FreePort(t))
	b := launch(t, map[string]string{}, "prometheus", "--config.file="+path, "--storage.tsdb.path="+dir,
		"--web.listen-address="+address)
	b.AwaitLog(t, "Server is ready to receive web requests")
	return &Prometheus{URL: "http://" + address}
}

// LintMetrics checks /metrics with Prometheus's own tool.
func LintMetrics(t testing.TB, text string) {
	t.Helper()
	check := exec.Command("promtool", "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
}

// Sample is one of the time series that a query yields, with its latest value.
type Sample struct {
	Metric map[string]string
	Value  [2]any // the time, and the value as text
}

// Query evaluates an expression now. A malformed expression fails the test.
func (p *Prometheus) Query(t testing.TB, expression string) []Sample {
	t.Helper()
	var data struct{ Result []Sample }
	p.get(t, "/api/v1/query?query="+url.QueryEscape(expression), &data)
	return data.Result
}

// Rule is a rule that Prometheus evaluates.
type Rule struct {
	Name      string
	Query     string
	Health    string // "ok" if it could be evaluated
	LastError string
}

// Rules returns all rules.
func (p *Prometheus) Rules(t testing.TB) (all []Rule) {
	t.Helper()
	var data struct{ Groups []struct{ Rules []Rule } }
	p.get(t, "/api/v1/rules", &data)
	for _, group := range data.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

// get asks Prometheus's API. https://prometheus.io/docs/prometheus/latest/querying/api/
func (p *Prometheus) get(t testing.TB, path string, data any) {
	t.Helper()
	answer, err := http.Get(p.URL + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	result := struct {
		Status string
		Data   any
	}{Data: data}
	if err := json.Unmarshal(raw, &result); err != nil || result.Status != "success" {
		t.Fatalf("%s: %v %s", path, err, raw)
	}
}

// Await waits until an expression has a result.
func (p *Prometheus) Await(t testing.TB, limit time.Duration, expression string) {
	t.Helper()
	Eventually(t, limit, "Prometheus has "+expression, func() bool { return len(p.Query(t, expression)) > 0 })
}

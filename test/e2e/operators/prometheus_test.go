package operators

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A real Prometheus with the shipped alerts reads two real brokers, one of which serves HTTPS: the alert that should fire
// does, and every expression of the alerts and of the dashboard is one that it understands; those of the dashboard have
// something to show. Its linter finds nothing wrong with the metrics' names, units and explanations.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described("first", server), testdrive.DeadServer(t, "dead")})
	dir := t.TempDir()
	env["BACKUP_STORE"] = "file://" + filepath.Join(dir, "backups")
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("shared-small", "max_bindings:", "backup_every_hours: 24, max_bindings:"))
	plain := testdrive.StartPlatform(t, server, env)
	testdrive.WriteKeyPair(t, filepath.Join(dir, "pair"))
	env["TLS_CERTIFICATE"] = filepath.Join(dir, "pair", "tls.crt")
	env["TLS_KEY"] = filepath.Join(dir, "pair", "tls.key")
	secure := testdrive.StartPlatform(t, server, env)

	rules := filepath.Join(dir, "alerts.yml")
	atOnce := regexp.MustCompile(`(?m)^ +for: .*\n`).ReplaceAllString(testdrive.Shipped(t, "deploy/prometheus/alerts.yml"), "")
	require.NoError(t, os.WriteFile(rules, []byte(atOnce), 0o600))
	prometheus := testdrive.StartPrometheus(t, fmt.Sprintf(`
global: {scrape_interval: 4s, scrape_timeout: 4s, evaluation_interval: 1s} # a busy machine is not a broker that is down
rule_files: [%q]
scrape_configs:
  - job_name: mysql-broker
    tls_config: {insecure_skip_verify: true}
    static_configs:
      - targets: [%q]
      - targets: [%q]
        labels: {__scheme__: https}
`, rules, hostOf(t, plain.URL), hostOf(t, secure.URL)))

	prometheus.Await(t, `count(up{job="mysql-broker"} == 1) == 2`)
	i := plain.Provisioned(t, "shared-small", nil)
	i.Bound(t, nil)
	prometheus.Await(t, `rate(mysql_broker_operations_total{kind="bind"}[1m]) > 0`) // soon it is 0 again
	prometheus.Await(t, `ALERTS{alertname="MySQLBrokerSharedServerDown", alertstate="firing", server="dead"}`)
	prometheus.Await(t, "mysql_broker_orphans")
	var others []testdrive.Sample // on a busy machine, one may fire for a scrape or two that came late
	defer func() { assert.Empty(t, others, "alerts that fire too") }()
	testdrive.Eventually(t, "no alert fires but those about the dead server", func() bool {
		others = prometheus.Query(t, `ALERTS{alertstate="firing", server!="dead"}`)
		return len(others) == 0
	})
	rulesThere := prometheus.Rules(t)
	assert.NotEmpty(t, rulesThere, "Prometheus has no rules")
	for _, rule := range rulesThere {
		assert.Equal(t, "ok", rule.Health, "%s: %s %s", rule.Name, rule.Health, rule.LastError)
		expectMetrics(t, prometheus, rule.Query)
	}
	for _, expression := range dashboardExpressions(t) {
		if slices.ContainsFunc(ofOthers, func(name string) bool { return strings.Contains(expression, name) }) {
			prometheus.Query(t, expression)
			continue
		}
		prometheus.Await(t, expression)
		expectMetrics(t, prometheus, expression)
	}
	prometheus.Await(t, fmt.Sprintf("mysql_broker_examination_timestamp_seconds{instance=%q}", hostOf(t, plain.URL)))
	problems, err := promlint.New(strings.NewReader(plain.Get(t, "/metrics"))).Lint()
	assert.NoError(t, err)
	assert.Empty(t, problems, "/metrics")
	expectVerified(t, secure, filepath.Join(dir, "pair"))
}

// expectVerified sends requests to a broker with HTTPS: over HTTP, without its CA, and with it. Then it replaces the
// certificate, which the broker takes up while it runs.
func expectVerified(t *testing.T, p testdrive.Platform, dir string) {
	client := p.Terminal(t)
	client.Env["BROKER_URL"] = "http://" + hostOf(t, p.URL)
	client.Refused(t, "HTTPS", "catalog")
	client.Env["BROKER_URL"] = "https://" + hostOf(t, p.URL)
	client.Refused(t, "x509", "catalog")
	client.Env["SSL_CERT_FILE"] = filepath.Join(dir, "ca.crt")
	client.Expect(t, "shared-small", "catalog")
	testdrive.WriteKeyPair(t, dir)
	testdrive.Eventually(t, "the new certificate is used", func() bool { return strings.Count(p.Log(), "HTTPS certificate") > 1 })
	client.Expect(t, "shared-small", "catalog")
}

var metricName = regexp.MustCompile(`mysql_broker_\w+`)

// ofOthers are metrics that these brokers do not have: those of another launcher, of plans whose binary logs are
// archived, and of limits on organizations.
var ofOthers = []string{"mysql_broker_dedicated_servers_in_trouble", "mysql_broker_binary_log_age_seconds", "mysql_broker_organization_instances"}

// expectMetrics fails the test if Prometheus never sees a metric that an expression names.
func expectMetrics(t *testing.T, prometheus *testdrive.Prometheus, expression string) {
	for _, name := range metricName.FindAllString(expression, -1) {
		if !slices.Contains(ofOthers, name) {
			prometheus.Await(t, name)
		}
	}
}

// dashboardExpressions are what the dashboard's panels show, for all that can be chosen.
func dashboardExpressions(t *testing.T) (all []string) {
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	require.NoError(t, json.Unmarshal([]byte(testdrive.Shipped(t, "deploy/grafana/mysql-broker.json")), &dashboard))
	chosen := strings.NewReplacer("$__rate_interval", "1m", "$job", ".*", "$plan", ".*")
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, chosen.Replace(target.Expr))
		}
	}
	assert.NotEmpty(t, all, "the dashboard shows nothing")
	return all
}

func hostOf(t *testing.T, text string) string {
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u.Host
}

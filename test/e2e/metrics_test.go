package e2e

import (
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestMetrics asserts each figure after a script of operations. All other metrics are 0, unless another test asserts them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	p := testdrive.StartWith(t, server, testdrive.DeadServer(t, "dead"), testdrive.Described("first", server)) // the dead server is passed over
	i := p.Provisioned(t, "shared-small", nil)
	gone, _ := i.Bound(t, nil)
	i.Bound(t, nil)
	gone.Unbind(t).Expect(t, http.StatusOK)
	gone.Unbind(t).Expect(t, http.StatusGone)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	p.DoWith(t, "GET", "/v2/catalog", nil, map[string]string{"Authorization": "Basic Z3Vlc3M6Z3Vlc3M="}).
		Expect(t, http.StatusUnauthorized)

	const bindings = `route="/v2/service_instances/{instance_id}/service_bindings/{binding_id}"`
	const instances = `route="/v2/service_instances/{instance_id}"`
	figures := map[string]string{
		`mysql_broker_operations_total{kind="provision",outcome="succeeded",plan="shared-small"}`:            "1",
		`mysql_broker_operations_total{kind="bind",outcome="succeeded",plan="shared-small"}`:                 "2",
		`mysql_broker_operations_total{kind="unbind",outcome="succeeded",plan="shared-small"}`:               "1",
		`mysql_broker_operations_total{kind="update",outcome="succeeded",plan="shared-large"}`:               "1",
		`mysql_broker_operations_total{kind="update",outcome="failed",plan="shared-large"}`:                  "0",
		`mysql_broker_operations_total{kind="update",outcome="cancelled",plan="shared-large"}`:               "0",
		`mysql_broker_operation_duration_seconds_count{kind="bind",outcome="succeeded",plan="shared-small"}`: "2",
		`mysql_broker_http_requests_total{method="PUT",` + bindings + `,status="201"}`:                       "2",
		`mysql_broker_http_requests_total{method="DELETE",` + bindings + `,status="410"}`:                    "1",
		`mysql_broker_http_requests_total{method="PATCH",` + instances + `,status="200"}`:                    "1",
		`mysql_broker_http_request_duration_seconds_count{method="PUT",` + bindings + `}`:                    "2",
		`mysql_broker_failed_logins_total`:                                                                   "1",
		`mysql_broker_instances{plan="shared-large",server="first"}`:                                         "1",
		`mysql_broker_bindings`:                                       "1",
		`mysql_broker_retained_instances`:                             "0",
		`mysql_broker_retained_bytes`:                                 "0",
		`mysql_broker_postgresql_up`:                                  "1",
		`mysql_broker_shared_server_up{server="first"}`:               "1",
		`mysql_broker_shared_server_up{server="dead"}`:                "0",
		`mysql_broker_shared_server_usable{server="first"}`:           "1",
		`mysql_broker_shared_server_usable{server="dead"}`:            "0",
		`mysql_broker_shared_server_databases{server="first"}`:        "1",
		`mysql_broker_shared_server_databases{server="dead"}`:         "0",
		`mysql_broker_shared_server_max_databases{server="first"}`:    "1000",
		`mysql_broker_shared_server_sold_connections{server="first"}`: "60", // of shared-large
		`mysql_broker_shared_server_sold_connections{server="dead"}`:  "0",
		`mysql_broker_shared_server_max_connections{server="first"}`: testdrive.Read[string](t, p.Admin(t),
			"SELECT @@GLOBAL.max_connections"),
		`mysql_broker_shared_server_max_connections{server="dead"}`:               "",
		`mysql_broker_shared_server_connections{server="dead"}`:                   "",
		`mysql_broker_pool_connections{server="dead",state="idle"}`:               "0",
		`mysql_broker_pool_connections{server="first",state="in_use"}`:            "0",
		`mysql_broker_pool_waits_total{server="first"}`:                           "0",
		`mysql_broker_task_retries_total{kind="bind"}`:                            "0",
		`mysql_broker_build_info{go="` + runtime.Version() + `",version="devel"}`: "1",
	}
	anyone := map[string]string{"Authorization": "", "X-Broker-API-Version": ""}
	p.DoWith(t, "GET", "/healthz", nil, anyone).Expect(t, http.StatusOK)
	r := p.DoWith(t, "GET", "/readyz", nil, anyone).Expect(t, http.StatusServiceUnavailable)
	assert.Equal(t, "ok", r.String("postgresql"), r.Raw)
	assert.Equal(t, map[string]any{"dead": "unreachable", "first": "ok"}, r.Body["shared_servers"], r.Raw)
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		r := p.DoWith(t, "POST", path, nil, anyone).Expect(t, http.StatusMethodNotAllowed)
		assert.Equal(t, "GET, HEAD", r.Header.Get("Allow"), path)
		assert.NotEmpty(t, r.String("description"), path)
	}
	var wrong []string
	defer func() { assert.Empty(t, wrong, "the metrics") }()
	// Sessions are given back after the response, and taken to look after the servers.
	testdrive.Eventually(t, "the metrics show what they should", func() bool {
		shown := p.Scrape(t)
		wrong = append(testdrive.Differences(shown, figures), notZero(shown, figures)...)
		return len(wrong) == 0
	})
}

// While the server is down, nobody knows whether the data fit a smaller plan, so the change is refused. A bind fails, and
// its repeat succeeds, even if the cleanup of the first attempt is still pending. A deletion waits, and the metrics show
// its growing age and its retries.
func TestServerThatIsDown(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.StartCrashable(t, s.Flavour)
	p, env := testdrive.PlatformOn(t, private.MySQL)
	i, large := p.MakeOwn(t, "shared-async"), p.Provisioned(t, "shared-large", nil)
	let := private.Crash(t)
	testdrive.ExpectRefusal(t, large.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusServiceUnavailable,
		"The MySQL server does not answer just now.")
	b := large.NewBinding()
	b.Bind(t, nil).Expect(t, http.StatusServiceUnavailable)
	i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted)
	const kind = `{kind="deprovision"`
	testdrive.Eventually(t, "the deprovision is tried again", func() bool {
		shown := p.Scrape(t)
		return shown["mysql_broker_task_retries_total"+kind+"}"] != "0" &&
			shown["mysql_broker_tasks"+kind+`,state="waiting"}`] == "1" &&
			shown["mysql_broker_task_oldest_age_seconds"+kind+"}"] > "0" &&
			shown["mysql_broker_task_stalled_seconds"+kind+"}"] > "0"
	})
	let()
	testdrive.Eventually(t, "the plan is changed", func() bool {
		return large.UpdatePlan(t, testdrive.Sync, "shared-small").Status == http.StatusOK
	})
	large.Credentials(t, b.Bind(t, nil).Expect(t, http.StatusCreated)).Open(t)
	testdrive.OpenTasks(t, env).AwaitSuccess(t, i.ID)
	testdrive.Eventually(t, "metrics tell of the end", func() bool {
		return len(testdrive.Differences(p.Scrape(t), map[string]string{"mysql_broker_task_oldest_age_seconds" + kind + "}": "0",
			"mysql_broker_operations_total" + kind + `,outcome="succeeded",plan="shared-async"}`: "1"})) == 0
	})
	testdrive.ExpectTenants(t, p.Admin(t), 1, 1)
}

// assertedElsewhere are metrics that TestMetrics has not: those of examinations, of HTTPS, of quotas and of restored backups.
var assertedElsewhere = []string{"mysql_broker_examination_timestamp_seconds", "mysql_broker_orphans",
	"mysql_broker_missing_resources", "mysql_broker_kept_resources",
	"mysql_broker_certificate_expiry_timestamp_seconds", "mysql_broker_quota_instances",
	"mysql_broker_quota_accounts_due", "mysql_broker_quota_measurement_timestamp_seconds", "mysql_broker_held"}

// notZero returns the time series of the broker that are not 0, although no test asserts another figure of the metric.
func notZero(shown testdrive.Metrics, asserted map[string]string) (all []string) {
	known := slices.Clone(assertedElsewhere)
	for series := range asserted {
		known = append(known, familyOf(series))
	}
	for series, value := range shown {
		if strings.HasPrefix(series, "mysql_broker_") && value != "0" && !slices.Contains(known, familyOf(series)) {
			all = append(all, series+" is "+value+", which no test asserts")
		}
	}
	return all
}

// familyOf is the name of a time series, without what tells those of a histogram apart.
func familyOf(series string) string {
	name, _, _ := strings.Cut(series, "{")
	for _, part := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, part)
	}
	return name
}

package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		p := startWith(t, server, described("first", server), deadServer(t, "dead"))
		i := p.provisioned(t, "shared-small", nil)
		gone, _ := i.bound(t, nil)
		i.bound(t, nil)
		gone.unbind(t).Expect(t, http.StatusOK)
		gone.unbind(t).Expect(t, http.StatusGone)
		expectEmpty(t, i.updatePlan(t, now, "shared-large"), http.StatusOK)

		const bindings = `route="/v2/service_instances/{instance_id}/service_bindings/{binding_id}"`
		expectFigures(t, p, map[string]string{
			`mysql_broker_operations_total{kind="provision",outcome="succeeded",plan="shared-small"}`: "1",
			`mysql_broker_operations_total{kind="bind",outcome="succeeded",plan="shared-small"}`:      "2",
			`mysql_broker_operations_total{kind="unbind",outcome="succeeded",plan="shared-small"}`:    "1",
			`mysql_broker_operations_total{kind="update",outcome="succeeded",plan="shared-large"}`:    "1",
			`mysql_broker_operation_duration_seconds_count{kind="bind",outcome="succeeded",` +
				`plan="shared-small"}`: "2",
			`mysql_broker_http_requests_total{method="PUT",` + bindings + `,status="201"}`:    "2",
			`mysql_broker_http_requests_total{method="DELETE",` + bindings + `,status="410"}`: "1",
			`mysql_broker_instances{plan="shared-large",server="first"}`:                      "1",
			`mysql_broker_bindings`:                                    "1",
			`mysql_broker_tasks{state="in_progress"}`:                  "0",
			`mysql_broker_tasks{state="waiting"}`:                      "0",
			`mysql_broker_task_oldest_age_seconds`:                     "0",
			`mysql_broker_shared_server_up{server="first"}`:            "1",
			`mysql_broker_shared_server_up{server="dead"}`:             "0",
			`mysql_broker_pool_waits_total{server="first"}`:            "0",
			`mysql_broker_shared_server_max_databases{server="first"}`: "1000",
		})
	})
}

// expectFigures compares time series, written as Prometheus does, with what /metrics shows.
func expectFigures(t *testing.T, p platform, want map[string]string) {
	t.Helper()
	shown := p.Scrape(t)
	for series, value := range want {
		if shown[series] != value {
			t.Errorf("%s is %q instead of %q", series, shown[series], value)
		}
	}
}

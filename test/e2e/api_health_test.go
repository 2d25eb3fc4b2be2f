package e2e

import (
	"net/http"
	"testing"

	"mysql-broker/test/servers"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, server servers.MySQL) {
		healthy := startWith(t, server, described("alive", server))
		anyone := map[string]string{"Authorization": "", "X-Broker-API-Version": ""}
		healthy.DoWith(t, "GET", "/healthz", nil, anyone).Expect(t, http.StatusOK)
		r := healthy.DoWith(t, "GET", "/readyz", nil, anyone).Expect(t, http.StatusOK)
		if r.String("postgresql") != "ok" || field(r.Body, "shared_servers", "alive") != "ok" {
			t.Errorf("a healthy broker says %s", r.Raw)
		}

		ailing := startWith(t, server, deadServer(t, "dead"), described("alive", server))
		ailing.DoWith(t, "GET", "/healthz", nil, anyone).Expect(t, http.StatusOK)
		r = ailing.DoWith(t, "GET", "/readyz", nil, anyone).Expect(t, http.StatusServiceUnavailable)
		if field(r.Body, "shared_servers", "dead") != "unreachable" || field(r.Body, "shared_servers", "alive") != "ok" {
			t.Errorf("a broker with a dead shared server says %s", r.Raw)
		}
	})
}

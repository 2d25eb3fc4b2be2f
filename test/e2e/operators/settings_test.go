package operators

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A server that lets tenants use engines other than InnoDB gets no instances until its settings are fixed; the log has
// the lines to set. Missing recommended settings are logged once and have no other effect.
func TestServerThatTakesOtherEngines(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	lax := map[string]string{"mysql": "disabled_storage_engines=", "mariadb": "max_prepared_stmt_count=16382"}
	line := map[string]string{"mysql": "disabled_storage_engines=MyISAM,MRG_MYISAM,MEMORY,CSV,ARCHIVE,BLACKHOLE,FEDERATED",
		"mariadb": "enforce_storage_engine=InnoDB"}[server.Flavour]
	private := testdrive.PrivateWith(t, server.Flavour, lax[server.Flavour], "max_prepared_stmt_count=16382")
	admin := testdrive.Platform{Server: private}.Admin(t)
	if server.Flavour == "mariadb" {
		testdrive.Exec(t, admin, "SET GLOBAL enforce_storage_engine = NULL")
	}
	env := testdrive.Environment(t, private)
	p := testdrive.StartPlatform(t, private, env)
	if logged := p.AwaitLog(t, "one tenant could take it down"); !strings.Contains(logged, `"`+line+`"`) {
		t.Errorf("the log does not say what to set: %s", logged)
	}
	if logged := p.AwaitLog(t, "settings that keep tenants apart are missing"); strings.Contains(logged, line) ||
		!strings.Contains(logged, `"max_prepared_stmt_count=1000000"`) {
		t.Errorf("the log does not say what else to set: %s", logged)
	}
	i := p.NewInstance(t, "shared-small")
	testdrive.ExpectRefusal(t, i.Provision(t, testdrive.Sync, nil), http.StatusServiceUnavailable, "No shared MySQL server")
	i.Fetch(t).Expect(t, http.StatusNotFound)
	usable := `mysql_broker_shared_server_usable{server="shared-1"}`
	testdrive.ExpectFigures(t, p, map[string]string{usable: "0"})
	shown := p.Operator(env).Run(t, 0, "servers", "shared-1").Stdout
	for _, want := range []string{"unusable", line, "max_prepared_stmt_count=1000000"} {
		if !strings.Contains(shown, want) {
			t.Errorf("operators see no %s: %s", want, shown)
		}
	}
	if server.Flavour == "mysql" {
		return // whose setting takes a restart
	}
	testdrive.Exec(t, admin, "SET GLOBAL enforce_storage_engine = InnoDB")
	testdrive.Eventually(t, limits.Stuck, "the server is used", func() bool {
		return i.Provision(t, testdrive.Sync, nil).Status == http.StatusCreated
	})
	testdrive.ExpectFigures(t, p, map[string]string{usable: "1"})
}

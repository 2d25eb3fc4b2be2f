package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var deprovisionScenarios = []scenario{
	{"deprovision with bindings left", testDeprovision},
	{"deprovision and provision again", testReuseOfID},
	{"deprovision what does not fit the catalog", testDeprovisionInvalid},
}

func testDeprovision(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	useAsApplication(t, c)
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	expectRefused(t, c.fields(t))
	expectNothingLeft(t, p, c.Database, c.Username)
	i.fetch(t).Expect(t, http.StatusNotFound)
	b.fetch(t).Expect(t, http.StatusNotFound)
	expectEmpty(t, b.unbind(t), http.StatusGone)
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
	b.bind(t, nil).Expect(t, http.StatusNotFound)
	i.updatePlan(t, now, "shared-large").Expect(t, http.StatusNotFound)
}

func databaseExists(t *testing.T, p platform, name string) bool {
	t.Helper()
	return read[bool](t, p.admin(t),
		"SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", name)
}

// expectNothingLeft fails the test if the server knows anything of a database or of its accounts.
func expectNothingLeft(t *testing.T, p platform, database string, accounts ...string) {
	t.Helper()
	if databaseExists(t, p, database) {
		t.Errorf("the database %s is still there", database)
	}
	for _, account := range accounts {
		if accountExists(t, p, account) {
			t.Errorf("the account %s is still there", account)
		}
	}
	pattern := strings.ReplaceAll(database, "_", `\_`)
	for _, table := range []string{"db", "tables_priv", "columns_priv", "procs_priv"} {
		left := names(t, p.admin(t), fmt.Sprintf("SELECT user FROM mysql.%s WHERE db IN ('%s', '%s')", table, database,
			strings.ReplaceAll(pattern, `\`, `\\`)))
		if len(left) > 0 {
			t.Errorf("mysql.%s has privileges of %q", table, left)
		}
	}
	const tablespaces = "SELECT COUNT(*) FROM information_schema.innodb_%stablespaces WHERE name LIKE CONCAT(?, '/%%')"
	sys := map[string]string{"mysql": "", "mariadb": "sys_"}[p.server.Flavour]
	if n := read[int](t, p.admin(t), fmt.Sprintf(tablespaces, sys), database); n > 0 {
		t.Errorf("%d files of the database are left", n)
	}
}

func testReuseOfID(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	b, c := i.bound(t, nil)
	exec(t, c.open(t), "CREATE TABLE fruit (name TEXT)")
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)

	expectEmpty(t, i.provision(t, now, nil), http.StatusCreated)
	c = i.credentials(t, b.bind(t, nil).Expect(t, http.StatusCreated))
	n := read[int](t, c.open(t), "SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()")
	if n != 0 {
		t.Errorf("the new instance has %d tables", n)
	}
}

func testDeprovisionInvalid(t *testing.T, p platform) {
	i := p.provisioned(t, "shared-small", nil)
	for _, query := range []string{"", "?service_id=" + i.serviceID, "?plan_id=" + i.planID,
		"?service_id=no-such-service&plan_id=" + i.planID, "?plan_id=no-such-plan&service_id=" + i.serviceID} {
		expectRefusal(t, i.Do(t, "DELETE", i.path()+query, nil), 400)
	}
	i.fetch(t).Expect(t, http.StatusOK)
}

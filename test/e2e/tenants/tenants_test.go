// Package tenants tests the limits of what tenants can do, with the compiled broker: how many instances and bindings
// they get, how much data, and what they can send and set.
package tenants

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestLimits creates as many instances and bindings as the catalog allows: without a limit, the bindings of one instance
// could take all connections of a server. That many requests at once create no more, package provisioner tests.
func TestLimits(t *testing.T) {
	p, env := testdrive.OnePlatform(t, "CATALOG", testdrive.EditedCatalog(t, func(text string) string {
		return "limits: {instances: 4, instances_per_organization: 7}\n" + testdrive.InPlan("shared-small", "max_bindings: 10",
			"limits: {instances: 3, instances_per_organization: 2}, max_bindings: 2")(text)
	}))
	of := func(organization string) body { return body{"organization_guid": organization} }
	i, other := p.Provisioned(t, "shared-small", of("first")), p.Provisioned(t, "shared-small", of("first"))
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, of("first")), http.StatusBadRequest,
		"Your organization has 2 service instances of plan shared-small, and may have 2", "Delete one", "operator")
	i.Provision(t, testdrive.Sync, of("first")).Expect(t, http.StatusOK) // a repeat needs no room
	p.Provisioned(t, "shared-small", of("second"))
	large := p.Provisioned(t, "shared-large", of("third"))
	const full = "This service broker has 3 service instances of plan shared-small, and may have 3"
	testdrive.ExpectRefusal(t, large.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusBadRequest, full)
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-large").Provision(t, testdrive.Sync, nil), http.StatusBadRequest,
		"This service broker has 4 service instances, and may have 4")
	quotas := testdrive.Run(t, env, "quotas").Expect(t, 0).Stdout
	for _, line := range []string{"all\tall\t-\t4\t4", "shared-small\tall\t-\t3\t3", "shared-small\tfirst\t-\t2\t2",
		"shared-large\tthird\t-\t1\t-"} {
		assert.Contains(t, "\n"+quotas, "\n"+line+"\n", "mysql-broker quotas")
	}
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_instance_limit{plan="shared-small"}`: "3", `mysql_broker_instance_limit{plan=""}`: "4",
		`mysql_broker_organization_instances{plan="shared-small"}`: "2", `mysql_broker_organization_instances{plan=""}`: "2",
		`mysql_broker_organization_instance_limit{plan="shared-small"}`: "2", `mysql_broker_organization_instance_limit{plan=""}`: "7"})
	other.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, large.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
	testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, of("first")), http.StatusBadRequest, full)

	first, c := i.Bound(t, nil)
	second, _ := i.Bound(t, nil)
	refused := i.NewBinding()
	testdrive.ExpectError(t, refused.Bind(t, nil), "BindingLimitReached", "has 2 service bindings", "shared-small allows 2",
		"Delete one", "larger plan")
	// Cloud Controller sends this after a refusal of a code that it does not know. It must end nothing.
	testdrive.ExpectEmpty(t, refused.Unbind(t), http.StatusGone)
	next, _ := i.Bound(t, body{"predecessor_binding_id": second.BindingID}) // one more during a rotation
	testdrive.ExpectError(t, i.NewBinding().Bind(t, body{"predecessor_binding_id": next.BindingID}), "BindingLimitReached")
	testdrive.ExpectEmpty(t, next.Unbind(t), http.StatusOK)
	first.Bind(t, nil).Expect(t, http.StatusOK) // a repeat needs no place
	told := testdrive.Field(i.Fetch(t).Expect(t, http.StatusOK).Body, "metadata", "attributes").(map[string]any)
	assert.True(t, told["bindings"] == 2.0 && told["max_bindings"] == 2.0, "the platform is told %v", told)
	assert.Regexp(t, `(?m)^sold_connections:\s+60$`, testdrive.Run(t, env, "servers", "shared-1").Expect(t, 0).Stdout)

	// An account that outlives its binding takes no place.
	testdrive.Exec(t, c.Open(t), "CREATE VIEW one AS SELECT 1 AS one")
	first.Unbind(t).Expect(t, http.StatusOK)
	require.True(t, testdrive.AccountExists(t, p, c.Username), "the account of the view's definer is gone")
	i.Bound(t, nil)
	testdrive.ExpectError(t, i.NewBinding().Bind(t, nil), "BindingLimitReached")

	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)
	more, _ := i.Bound(t, nil)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), "PlanChangeNotSupported", "has 3 service bindings",
		"shared-small allows 2", "Delete 1")
	more.Unbind(t).Expect(t, http.StatusOK)
	testdrive.ExpectEmpty(t, i.UpdatePlan(t, testdrive.Sync, "shared-small"), http.StatusOK)
}

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// TestQuota reads what platforms, developers, operators and metrics are told about an instance that goes over its quota
// and comes back. Which statements are refused to which account then, and until when, package quota tests.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.QuotaEnvironment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Fill(t, db, 1)
	testdrive.Eventually(t, "the platform is told what the data takes", func() bool {
		return storageOf(t, i)["storage_state"] == "ok"
	})

	testdrive.Overfill(t, db, testdrive.QuotaSmall)
	line := p.AwaitLog(t, "a service instance is over its quota")
	assert.True(t, strings.Contains(line, i.ID) && strings.Contains(line, `"quota_bytes":41943040`),
		"the log tells no more than: %s", line)
	told := storageOf(t, i)
	assert.True(t, told["storage_state"] == "over quota" && told["storage_message"] != nil,
		"the platform is told: %v", told)
	testdrive.Eventually(t, "metrics tell", func() bool { // which may be a minute old on a busy machine
		return p.Scrape(t)[`mysql_broker_quota_instances{level="100",plan="shared-small"}`] == "1"
	})
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_instance_storage_quota_bytes{instance_id="` + i.ID + `",plan="shared-small"}`: "4.194304e+07",
		`mysql_broker_quota_accounts_due`:                                  "0",
		`mysql_broker_quota_instances{level="80",plan="shared-small"}`:     "0",
		`mysql_broker_quota_instances{level="100",plan="dedicated-small"}`: "0",
	})
	user := p.Terminal(t) // which is to know an instance that it did not make
	known := testdrive.Encode(t, body{p.URL: body{"mine": body{"guid": i.ID, "plan": body{"name": "shared-small"}}}})
	require.NoError(t, os.WriteFile(user.Env["MYSQL_BROKER_CLIENT_STATE"], []byte(known), 0o600))
	user.Expect(t, "over quota", "service", "mine")
	shown := p.Operator(env).Run(t, 0, "instances", i.ID, "--json").Stdout
	assert.True(t, strings.Contains(shown, `"over_quota_since"`) && strings.Contains(shown, `"storage_bytes"`),
		"operators see: %s", shown)

	testdrive.Exec(t, db, "DELETE FROM filler WHERE id > 3")
	testdrive.AwaitAllowed(t, db)
	told = storageOf(t, i)
	assert.True(t, told["storage_state"] == "ok", "the platform is told: %v", told)

	p.Kill(t)
	env["QUOTA_INTERVAL"] = "0"
	p = testdrive.StartPlatform(t, s, env)
	assert.Empty(t, storageOf(t, i.Via(p)), "the platform is told of measurements that are not made any more")
	for name := range p.Scrape(t) {
		assert.False(t, strings.Contains(name, "quota") || strings.Contains(name, "storage"),
			"without measurements, there is the metric %s", name)
	}
	testdrive.ExpectEmpty(t, i.Via(p).Deprovision(t, testdrive.Sync), http.StatusOK)
}

// storageOf is what the platform is told about an instance's storage.
func storageOf(t *testing.T, i testdrive.Instance) map[string]any {
	told := map[string]any{}
	all, _ := testdrive.Field(i.Fetch(t).Expect(t, http.StatusOK).Body, "metadata", "attributes").(map[string]any)
	for name, value := range all {
		if strings.HasPrefix(name, "storage") {
			told[name] = value
		}
	}
	return told
}

// On MySQL, a tenant can make his database read-only. A restore in place makes it writable, one that fails leaves it as
// it was, a copy is writable, and a move keeps it read-only.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, s, env)
		i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := i.Bound(t, nil)
		db := c.Open(t)
		testdrive.Exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		setReadOnly := func() {
			_, err := db.Exec("ALTER DATABASE `" + c.Database + "` READ ONLY = 1")
			require.Equal(t, s.Flavour == "mariadb", err != nil, "ALTER DATABASE READ ONLY: %v", err)
		}
		expectWritable := func(what string, c testdrive.Credentials, want bool) {
			_, err := c.Open(t).Exec("INSERT INTO t SELECT MAX(id) + 1 FROM t")
			assert.Equal(t, want || s.Flavour == "mariadb", err == nil, "%s: %v", what, err)
		}
		setReadOnly()
		backup := i.BackedUp(t)

		reached, release := testdrive.HoldAt(t, faults, "restore: restored")
		operation := i.RestoreBackup(t, backup, "db").Operation(t)
		testdrive.Receive(t, reached, "rows are restored")
		p.Operator(env).Run(t, 0, "tasks", "cancel", operation)
		release()
		i.AwaitFailure(t, operation, "earlier data back")
		expectWritable("after a restore that failed", c, false)
		i.Await(t, i.RestoreBackup(t, backup, "db").Operation(t))
		expectWritable("after a restore", c, true)

		setReadOnly()
		clone := p.NewInstance(t, "shared-small")
		clone.Await(t, clone.Clone(t, i.ID, nil).Operation(t))
		_, of := clone.Bound(t, nil)
		expectWritable("a copy", of, true)
		i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
		_, moved := i.Bound(t, nil)
		expectWritable("where the data was moved", moved, false)
	})
}

package tenants

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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
	testdrive.Eventually(t, testdrive.QuotaTime, "the platform is told what the data takes", func() bool {
		return storageOf(t, i)["storage_state"] == "ok"
	})

	testdrive.Overfill(t, db, testdrive.QuotaSmall)
	line := p.AwaitLog(t, "a service instance is over its quota")
	assert.True(t, strings.Contains(line, i.ID) && strings.Contains(line, `"quota_bytes":41943040`),
		"the log tells no more than: %s", line)
	told := storageOf(t, i)
	assert.True(t, told["storage_state"] == "over quota" && told["storage_message"] != nil,
		"the platform is told: %v", told)
	testdrive.Eventually(t, limits.Stuck, "metrics tell", func() bool { // which may be a minute old on a busy machine
		return p.Scrape(t)[`mysql_broker_quota_instances{level="100",plan="shared-small"}`] == "1"
	})
	testdrive.ExpectFigures(t, p, map[string]string{
		`mysql_broker_instance_storage_quota_bytes{instance_id="` + i.ID + `",plan="shared-small"}`: "4.194304e+07",
		`mysql_broker_quota_accounts_due`:                                  "0",
		`mysql_broker_quota_instances{level="80",plan="shared-small"}`:     "0",
		`mysql_broker_quota_instances{level="100",plan="dedicated-small"}`: "0",
	})
	user := p.Terminal(t)
	user.Env["MYSQL_BROKER_CLIENT_STATE"] = filepath.Join(t.TempDir(), "client.json") // knows an instance that it did not make
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
	t.Helper()
	told := map[string]any{}
	all, _ := testdrive.Field(i.Fetch(t).Expect(t, http.StatusOK).Body, "metadata", "attributes").(map[string]any)
	for name, value := range all {
		if strings.HasPrefix(name, "storage") {
			told[name] = value
		}
	}
	return told
}

package operators

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestCloudFoundry(t *testing.T) {
	t.Parallel()
	all := servers.AllMySQL(t)
	env := cloudFoundryEnvironment(t, map[string]servers.MySQL{"mysql-server-blue": all[0],
		"a-name-of-another-kind": all[len(all)-1]})
	p := testdrive.StartPlatform(t, all[0], env)
	if !strings.HasSuffix(p.URL, ":"+env["PORT"]) {
		t.Errorf("the broker listens at %s, not on port %s", p.URL, env["PORT"])
	}
	if line := p.AwaitLog(t, `"msg":"ready"`); !strings.Contains(line, `"app":"mysql-broker","app_index":1`) {
		t.Errorf("the log does not say which instance of the app it is from: %s", line)
	}
	ready := p.Do(t, "GET", "/readyz", nil).Expect(t, 200)
	names := slices.Sorted(maps.Keys(ready.Body["shared_servers"].(map[string]any)))
	if want := []string{"a-name-of-another-kind", "mysql-server-blue"}; !slices.Equal(names, want) {
		t.Errorf("shared servers: %q, want %q", names, want)
	}
	if catalog := p.Do(t, "GET", "/v2/catalog", nil).Expect(t, 200).Raw; strings.Contains(catalog, "dedicated-small") ||
		!strings.Contains(catalog, "shared-small") {
		t.Errorf("without a launcher, shared plans alone are to be offered: %s", catalog)
	}
	p.OwnInstance(t, "dedicated-small").Provision(t, testdrive.Async, nil).Expect(t, 400)
	used := map[int]bool{}
	for range 2 {
		_, c := p.Provisioned(t, "shared-small", nil).Bound(t, nil)
		c.Open(t)
		used[c.Port] = true
	}
	for _, s := range all {
		if !used[s.Port] {
			t.Errorf("of two instances, none is on the server at port %d", s.Port)
		}
	}
}

// cloudFoundryEnvironment is what an app gets from `cf push` with a bound PostgreSQL service, a user-provided service
// for each shared server, and the three variables that only its operator can know.
func cloudFoundryEnvironment(t *testing.T, shared map[string]servers.MySQL) map[string]string {
	t.Helper()
	keyset, err := store.NewKeyset()
	if err != nil {
		t.Fatal(err)
	}
	var provided []map[string]any
	for name, s := range shared {
		provided = append(provided, map[string]any{"label": "user-provided", "name": name, "instance_name": name,
			"binding_name": nil, "tags": []string{"mysql-server"}, "syslog_drain_url": "", "volume_mounts": []any{},
			"credentials": map[string]any{"ca_certificate": s.CA,
				"uri": fmt.Sprintf("mysql://%s:%s@%s:%d/", s.BrokerUser, s.BrokerPassword, s.Host, s.Port)}})
	}
	return map[string]string{
		"PORT":              strconv.Itoa(testdrive.FreePort(t)),
		"BROKER_USERNAME":   testdrive.Username,
		"BROKER_PASSWORD":   testdrive.Password,
		"ENCRYPTION_KEYSET": keyset,
		"CATALOG":           testdrive.Root() + "/catalog.yml", // elsewhere it lies in the app's directory
		"VCAP_APPLICATION": testdrive.Encode(t, map[string]any{"application_name": "mysql-broker", "instance_index": 1,
			"application_uris": []string{"mysql-broker.example.com"}, "limits": map[string]int{"fds": 1024}}),
		"VCAP_SERVICES": testdrive.Encode(t, map[string]any{
			"user-provided": provided,
			"elephants": []any{map[string]any{"label": "elephants", "plan": "small", "name": "db", "instance_name": "db",
				"tags": []string{"PostgreSQL", "relational"}, "credentials": map[string]any{"uri": servers.Postgres(t)}}},
			"redis": []any{map[string]any{"label": "redis", "name": "cache", "tags": []string{"key-value"},
				"credentials": map[string]any{"uri": "redis://elsewhere:6379"}}},
		}),
	}
}

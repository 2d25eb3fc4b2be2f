package testdrive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mysql-broker/test/servers"
)

// QuotaSmall is how many MiB shared-small and shared-async have in a QuotaEnvironment.
const QuotaSmall = 40

// QuotaEnvironment is that of brokers that measure every second, and whose smallest plans are smaller still.
func QuotaEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	t.Helper()
	env := Environment(t, server)
	of := func(mebibytes int) string { return fmt.Sprintf("max_storage_mb: %d,", mebibytes) }
	env["CATALOG"] = EditedCatalog(t, strings.NewReplacer(of(100), of(QuotaSmall)).Replace)
	env["QUOTA_INTERVAL"] = QuotaInterval.String()
	return env
}

func Encode(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// AnyEnvironment is for tests that need one broker on any server.
func AnyEnvironment(t *testing.T) map[string]string {
	t.Helper()
	return Environment(t, servers.Any(t))
}

// Described is a shared server as MYSQL_SERVERS describes it.
func Described(name string, s servers.MySQL) map[string]any {
	return map[string]any{"name": name, "ca_certificate": s.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s:%d/", s.BrokerUser, s.BrokerPassword, s.Host, s.Port)}
}

package testdrive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"mysql-broker/test/servers"
)

// How many MiB the plans of QuotaEnvironment have.
const (
	QuotaSmall     = 40 // shared-small, shared-async
	QuotaLarge     = 80 // shared-large
	QuotaDedicated = 64 // dedicated-small
)

// QuotaEnvironment is that of brokers that measure every second, and whose plans are small.
func QuotaEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	t.Helper()
	env := Environment(t, server)
	of := func(mebibytes int) string { return fmt.Sprintf("max_storage_mb: %d, max_connections: ", mebibytes) }
	env["CATALOG"] = EditedCatalog(t, strings.NewReplacer(of(100), of(QuotaSmall), of(1024)+"60", of(QuotaLarge)+"60",
		of(1024)+"50", of(QuotaDedicated)+"50").Replace)
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

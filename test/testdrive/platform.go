package testdrive

import (
	"database/sql"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/launcher/process/processtest"
	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
)

// Platform is what a scenario works with: a broker, and the shared server behind it. Scenarios run at the same time
// on one broker and must use instance ids of their own.
type Platform struct {
	*Broker
	Server      servers.MySQL
	launcherDir string // of its dedicated servers
	Seen        *Secrets
}

// StartPlatform starts a broker. Once that has stopped, neither its log nor its responses may hold any of its secrets.
func StartPlatform(t *testing.T, server servers.MySQL, env map[string]string) Platform {
	return StartPlatformBy(t, Start, server, env)
}

func StartPlatformBy(t *testing.T, start func(testing.TB, map[string]string) *Broker, server servers.MySQL,
	env map[string]string) Platform {
	seen := &Secrets{}
	seen.Add(env["BROKER_PASSWORD"], env["ENCRYPTION_KEYSET"], server.Password, server.BrokerPassword)
	p := Platform{Server: server, launcherDir: env["LAUNCHER_DIR"], Seen: seen}
	t.Cleanup(func() { // before start, so that it runs once the broker has stopped
		if p.Broker == nil { // it did not start
			return
		}
		seen.Check(t, "the log", p.Log())
		seen.Check(t, "the answers", seen.HeardText())
		assert.Empty(t, seen.unkempt, "refusals in another style")
	})
	p.Broker = start(t, env)
	p.Username, p.Password, p.OnAnswer = env["BROKER_USERNAME"], env["BROKER_PASSWORD"], seen.heard
	return p
}

// Get reads any path without a password.
func (b *Broker) Get(t testing.TB, path string) string { return get(t, b.URL+path) }

func get(t testing.TB, address string) string {
	r, err := http.Get(address)
	require.NoError(t, err)
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(raw)
}

// DeadServer is described like a server, but nothing listens there.
func DeadServer(t *testing.T, name string) map[string]any {
	return Described(name, servers.MySQL{BrokerUser: "admin", BrokerPassword: "unused-password", Host: "127.0.0.1",
		Port: FreePort(t)})
}

// StartWith starts a broker with these shared servers and without a launcher.
func StartWith(t *testing.T, server servers.MySQL, shared ...map[string]any) Platform {
	p, _ := PlatformOn(t, server, "MYSQL_SERVERS", Encode(t, shared), "LAUNCHER", "none")
	return p
}

// OnePlatform starts a broker, for what does not depend on the flavour. settings are names and values by turns.
func OnePlatform(t *testing.T, settings ...string) (Platform, map[string]string) {
	t.Parallel()
	return PlatformOn(t, servers.Any(t), settings...)
}

// PrivatePlatform is OnePlatform on a server of its own.
func PrivatePlatform(t *testing.T, settings ...string) (Platform, map[string]string) {
	t.Parallel()
	return PlatformOn(t, Private(t, servers.Any(t).Flavour), settings...)
}

// PlatformOn starts a broker on a server, with its environment. settings are names and values by turns.
func PlatformOn(t *testing.T, server servers.MySQL, settings ...string) (Platform, map[string]string) {
	env := Environment(t, server)
	for setting := range slices.Chunk(settings, 2) {
		env[setting[0]] = setting[1]
	}
	return StartPlatform(t, server, env), env
}

// Inspectors returns the inspector of the one launcher of an environment, by the launcher's name, for audits.
func Inspectors(env map[string]string) map[string]audit.Inspector {
	return map[string]audit.Inspector{env["LAUNCHER"]: processtest.Inspector{Dir: env["LAUNCHER_DIR"]}}
}

// AuditOf is what an audit compares of the brokers in an environment, with an administrator's login to the shared server.
func AuditOf(t testing.TB, env map[string]string, shared *sql.DB) audit.World {
	return audit.World{Records: audit.OpenRecords(t, env["DATABASE_URL"], env["ENCRYPTION_KEYSET"]), Shared: shared,
		Launchers: Inspectors(env), Objects: Objects(env), Plans: Plans(t)}
}

// Objects returns the object store of an environment, a directory, for audits, or nil if it has none.
func Objects(env map[string]string) objectstore.Store {
	if env["BACKUP_STORE"] == "" {
		return nil
	}
	return objectstore.OpenDirectory(strings.TrimPrefix(env["BACKUP_STORE"], "file://"))
}

package testdrive

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func Encode(t testing.TB, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// AnyEnvironment is for tests that need one broker on any server.
func AnyEnvironment(t *testing.T) map[string]string {
	t.Helper()
	return Environment(t, servers.Any(t))
}

// PrivateEnvironment is for tests that need a broker on a server of their own.
func PrivateEnvironment(t *testing.T) (private servers.MySQL, env map[string]string) {
	t.Helper()
	private = Private(t, servers.Any(t).Flavour)
	return private, Environment(t, private)
}

// Described is a shared server as MYSQL_SERVERS describes it.
func Described(name string, s servers.MySQL) map[string]any {
	return map[string]any{"name": name, "ca_certificate": s.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s:%d/", s.BrokerUser, s.BrokerPassword, s.Host, s.Port)}
}

// UseAsApplication does what applications and their migrations do.
func UseAsApplication(t *testing.T, c Credentials) {
	t.Helper()
	db := c.Open(t)
	Exec(t, db,
		"CREATE TABLE fruit (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20), noted VARCHAR(20))",
		"CREATE TRIGGER note BEFORE INSERT ON fruit FOR EACH ROW SET NEW.noted = UPPER(NEW.name)",
		"INSERT INTO fruit (name) VALUES ('apple'), ('pear')",
		"CREATE VIEW apples AS SELECT * FROM fruit WHERE name LIKE 'apple%'",
		"CREATE PROCEDURE add_fruit (n VARCHAR(20)) INSERT INTO fruit (name) VALUES (n)",
		"CALL add_fruit('apple tart')")
	assert.Equal(t, "APPLE,APPLE TART", Read[string](t, db, "SELECT GROUP_CONCAT(noted ORDER BY id) FROM apples"),
		"the view")
}

// MakeObjects makes these in an instance.
func MakeObjects(t *testing.T, i Instance) Credentials {
	t.Helper()
	_, c := i.Bound(t, nil)
	MakeObjectsAs(t, c)
	return c
}

func MakeObjectsAs(t *testing.T, c Credentials) {
	t.Helper()
	Exec(t, c.Open(t), "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO items (name) VALUES ('one'), ('two')", "CREATE VIEW names AS SELECT name FROM items",
		"CREATE PROCEDURE add_item() INSERT INTO items (name) VALUES ('added')",
		"CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW SET NEW.name = UPPER(NEW.name)")
}

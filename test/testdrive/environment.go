package testdrive

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
)

// QuotaSmall is how many MiB shared-small and shared-async have in a QuotaEnvironment.
const QuotaSmall = 40

// QuotaEnvironment is that of brokers that measure every second, and whose smallest plans are smaller still.
func QuotaEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	env := Environment(t, server)
	of := func(mebibytes int) string { return fmt.Sprintf("max_storage_mb: %d,", mebibytes) }
	env["CATALOG"] = EditedCatalog(t, strings.NewReplacer(of(100), of(QuotaSmall)).Replace)
	env["QUOTA_INTERVAL"] = QuotaInterval.String()
	return env
}

func Encode(t testing.TB, v any) string {
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	return string(raw)
}

// AnyEnvironment is for tests that need one broker on any server.
func AnyEnvironment(t *testing.T) map[string]string { return Environment(t, servers.Any(t)) }

// PrivateEnvironment is for tests that need a broker on a server of their own.
func PrivateEnvironment(t *testing.T) (private servers.MySQL, env map[string]string) {
	private = Private(t, servers.Any(t).Flavour)
	return private, Environment(t, private)
}

// Described is a shared server as MYSQL_SERVERS describes it.
func Described(name string, s servers.MySQL) map[string]any {
	return map[string]any{"name": name, "ca_certificate": s.CA,
		"uri": fmt.Sprintf("mysql://%s:%s@%s/", s.BrokerUser, s.BrokerPassword, s.Address())}
}

// UseAsApplication does what applications and their migrations do.
func UseAsApplication(t *testing.T, c Credentials) {
	MakeObjectsAs(t, c)
	useObjects(t, c)
}

func MakeObjects(t *testing.T, i Instance) Credentials {
	_, c := i.Bound(t, nil)
	MakeObjectsAs(t, c)
	return c
}

func MakeObjectsAs(t *testing.T, c Credentials) {
	Exec(t, c.Open(t), "CREATE TABLE items (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20))",
		"INSERT INTO items (name) VALUES ('one'), ('two')", "CREATE VIEW names AS SELECT name FROM items",
		"CREATE PROCEDURE add_item() INSERT INTO items (name) VALUES ('added')",
		"CREATE TRIGGER loud BEFORE INSERT ON items FOR EACH ROW SET NEW.name = UPPER(NEW.name)")
}

// useObjects uses what MakeObjectsAs has made, for the first time.
func useObjects(t *testing.T, c Credentials) {
	db := c.Open(t)
	Exec(t, db, "CALL add_item()")
	assert.Equal(t, []string{"ADDED", "one", "two"}, ReadAll(t, db, "SELECT name FROM names ORDER BY name"), "the view")
}

// EditedCatalog returns the path of a copy of the project's catalog, changed by edit.
func EditedCatalog(t testing.TB, edit func(text string) string) (path string) {
	return edited(t, filepath.Join(Root(), "catalog.yml"), edit)
}

// edited is EditedCatalog of any catalog.
func edited(t testing.TB, catalog string, edit func(text string) string) (path string) {
	text, err := os.ReadFile(catalog)
	require.NoError(t, err)
	changed := edit(string(text))
	require.NotEqual(t, string(text), changed, "the catalog is as it was")
	path = filepath.Join(t.TempDir(), "catalog.yml")
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	return path
}

// InPlan edits what follows a plan's name: the first old becomes new.
func InPlan(plan, old, new string) (edit func(text string) string) {
	return func(text string) string {
		before, after, found := strings.Cut(text, "name: "+plan+"\n")
		if !found {
			return text
		}
		return before + "name: " + plan + strings.Replace("\n"+after, old, new, 1)
	}
}

// Shipped is a file of the project.
func Shipped(t *testing.T, path string) string {
	text, err := os.ReadFile(filepath.Join(Root(), path))
	require.NoError(t, err)
	return string(text)
}

func CatalogWithout(t *testing.T, plans ...string) (path string) {
	return EditedCatalog(t, func(text string) string {
		const between = "\n      - id: "
		return strings.Join(slices.DeleteFunc(strings.Split(text, between), func(part string) bool {
			return slices.ContainsFunc(plans, func(plan string) bool { return strings.Contains(part, "name: "+plan+"\n") })
		}), between)
	})
}

// CatalogRetaining has plans that keep the data of deleted instances for two days, and allow events.
func CatalogRetaining(t *testing.T) (path string) {
	return EditedCatalog(t, func(text string) string {
		text = strings.ReplaceAll(text, "max_bindings: 10,", "max_bindings: 10, keep_deleted_days: 2, events: true,")
		return strings.ReplaceAll(text, "max_bindings: 20,", "max_bindings: 20, keep_deleted_days: 2,")
	})
}

// RetainingCatalog is the path of a copy of the project's catalog, in which these plans keep the data of deleted
// instances for a day.
func RetainingCatalog(t testing.TB, plans ...string) (path string) {
	path = filepath.Join(Root(), "catalog.yml")
	for _, plan := range plans {
		path = CatalogWith(t, path, plan, "keep_deleted_days: 1")
	}
	return path
}

// OfferUpgrade has the plan dedicated-large want a later version than dedicated-small, and returns it.
func OfferUpgrade(t testing.TB, env map[string]string) launcher.Version {
	present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
	require.NoError(t, err)
	later := servers.Later(t, present)
	env["LAUNCHER_MYSQLD"] = present.Path + "," + later.Path
	env["CATALOG"] = CatalogWith(t, env["CATALOG"], "dedicated-small", fmt.Sprintf("version: %q", present.Version))
	return launcher.Version{Flavour: later.Flavour, Version: later.Version}
}

// CatalogWith writes a catalog like that one, in which a plan has one more key for the broker, and returns its path.
func CatalogWith(t testing.TB, catalog, plan, key string) (path string) {
	return edited(t, catalog, InPlan(plan, "max_bindings: ", key+", max_bindings: "))
}

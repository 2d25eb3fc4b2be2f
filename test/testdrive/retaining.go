package testdrive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// RetainingCatalog is the path of a copy of the project's catalog, in which these plans keep the data of deleted
// instances for a day.
func RetainingCatalog(t testing.TB, plans ...string) (path string) {
	t.Helper()
	path = filepath.Join(Root(), "catalog.yml")
	for _, plan := range plans {
		path = CatalogWith(t, path, plan, "keep_deleted_days: 1")
	}
	return path
}

// CatalogWith writes a catalog like that one, in which a plan has one more key for the broker, and returns its path.
func CatalogWith(t testing.TB, catalog, plan, key string) (path string) {
	t.Helper()
	content, err := os.ReadFile(catalog)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(content), "name: "+plan+"\n")
	edited := strings.Replace(after, "max_bindings: ", key+", max_bindings: ", 1)
	if !found || edited == after {
		t.Fatalf("the catalog has no plan %s with max_bindings", plan)
	}
	path = filepath.Join(t.TempDir(), "catalog.yml")
	if err := os.WriteFile(path, []byte(before+"name: "+plan+"\n"+edited), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

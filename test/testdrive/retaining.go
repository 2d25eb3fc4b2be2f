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
	content, err := os.ReadFile(filepath.Join(Root(), "catalog.yml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, plan := range plans {
		before, after, found := strings.Cut(text, "name: "+plan+"\n")
		edited := strings.Replace(after, "max_bindings: ", "keep_deleted_days: 1, max_bindings: ", 1)
		if !found || edited == after {
			t.Fatalf("the catalog has no plan %s with max_bindings", plan)
		}
		text = before + "name: " + plan + "\n" + edited
	}
	path = filepath.Join(t.TempDir(), "catalog.yml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

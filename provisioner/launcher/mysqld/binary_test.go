package mysqld_test

import (
	"os"
	"path/filepath"
	"testing"

	"mysql-broker/provisioner/launcher/mysqld"
)

func TestFindBinariesListsEachOnce(t *testing.T) {
	t.Parallel()
	for _, installed := range mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...) {
		link := filepath.Join(t.TempDir(), "mysqld")
		if err := os.Symlink(installed.Path, link); err != nil {
			t.Fatal(err)
		}
		count := 0
		for _, b := range mysqld.FindBinaries(link, installed.Path, filepath.Join(t.TempDir(), "missing")) {
			if b == installed {
				count++
			}
		}
		if count != 1 {
			t.Errorf("%s is listed %d times", installed.Path, count)
		}
	}
}

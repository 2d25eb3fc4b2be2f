package mysqld_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

func TestFindBinariesListsEachOnce(t *testing.T) {
	t.Parallel()
	for _, installed := range mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...) {
		link := filepath.Join(t.TempDir(), "mysqld")
		require.NoError(t, os.Symlink(installed.Path, link))
		count := 0
		for _, b := range mysqld.FindBinaries(link, installed.Path, filepath.Join(t.TempDir(), "missing")) {
			if b == installed {
				count++
			}
		}
		assert.Equal(t, 1, count, "%s is listed %d times", installed.Path, count)
	}
}

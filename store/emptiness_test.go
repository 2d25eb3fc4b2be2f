package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Code asks Location, or the column location_kind, for the kind of a location. It does not derive the kind from a name
// that is empty.
func TestLocationsAreNotToldByEmptiness(t *testing.T) {
	t.Parallel()
	derived := regexp.MustCompile(`\b(dedicated_id|i\.server)\s*(=|<>)\s*''|Location\.(Server|Launcher)\s*[!=]=\s*""`)
	for _, pattern := range []string{"*.go", "../provisioner/*.go", "../provisioner/*/*.go", "../broker/*.go",
		"../broker/*/*.go", "../cmd/*/*.go", "../cmd/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.True(t, err == nil && len(files) != 0, "%s: %d files, %v", pattern, len(files), err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found := derived.Find(text)
			assert.Nil(t, found, "%s derives the kind of a location: %s", file, found)
		}
	}
}

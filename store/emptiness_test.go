package store_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// Code asks Location, or the column location_kind, for the kind of a location. It does not derive the kind from a name
// that is empty.
func TestLocationsAreNotToldByEmptiness(t *testing.T) {
	t.Parallel()
	derived := regexp.MustCompile(`\b(dedicated_id|i\.server)\s*(=|<>)\s*''|Location\.(Server|Launcher)\s*[!=]=\s*""`)
	for _, pattern := range []string{"*.go", "../provisioner/*.go", "../provisioner/*/*.go", "../broker/*.go",
		"../broker/*/*.go", "../cmd/*/*.go", "../cmd/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if found := derived.Find(text); found != nil {
				t.Errorf("%s derives the kind of a location: %s", file, found)
			}
		}
	}
}

// Package deploy tests what operators deploy with: what is in the folder deploy, manifest.yml, and the documents.
package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// path is that of a file of the project.
func path(name string) string { return filepath.Join(testdrive.Root(), name) }

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(path(name))
	require.NoError(t, err)
	return string(text)
}

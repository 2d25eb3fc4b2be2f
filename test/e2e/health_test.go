package e2e

import (
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// An object store that cannot be used is told at the start, by /readyz, by the doctor, and once it can be used again. A
// directory is never created: what should be mounted there may be missing.
func TestObjectStoreMissing(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	root := filepath.Join(t.TempDir(), "not-mounted")
	env["BACKUP_STORE"] = "file://" + root
	p := testdrive.StartPlatform(t, server, env)
	p.AwaitLog(t, "use of the object store failed")
	r := p.Do(t, "GET", "/readyz", nil).Expect(t, http.StatusOK)
	assert.True(t, r.String("status") == "degraded" && r.String("object_store") == "unusable",
		"a broker without its object store says %s", r.Raw)
	out := p.Operator(env).Run(t, 1, "doctor").Stdout
	assert.True(t, strings.Contains(out, "unreachable   object store") && strings.Contains(out, "file://"+root),
		"the doctor says %s", out)
	_, err := os.Stat(root)
	assert.ErrorIs(t, err, fs.ErrNotExist, "the directory was created")
	require.NoError(t, os.Mkdir(root, 0o700))
	p.Operator(env).Run(t, 0, "doctor")
	all, err := os.ReadDir(root)
	assert.True(t, err == nil && len(all) == 0, "the probe has left %v, %v", all, err)
}

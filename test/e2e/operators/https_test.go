package operators

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// A broker serves HTTPS to who trusts its CA, and takes up a new certificate while it runs.
func TestHTTPS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testdrive.WriteKeyPair(t, dir)
	env := testdrive.AnyEnvironment(t)
	env["TLS_CERTIFICATE"], env["TLS_KEY"] = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	b := testdrive.Start(t, env)
	user := map[string]string{"BROKER_URL": b.URL, "BROKER_USERNAME": b.Username, "BROKER_PASSWORD": b.Password,
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json")}
	expect := func(status int, says string) {
		t.Helper()
		out := testdrive.Run(t, user, "client", "catalog").Expect(t, status)
		assert.True(t, strings.Contains(out.Stdout+out.Stderr, says),
			"the client says %s %s instead of %q", out.Stdout, out.Stderr, says)
	}
	expect(1, "HTTPS")
	user["BROKER_URL"] = strings.Replace(b.URL, "http:", "https:", 1)
	expect(1, "x509")
	user["SSL_CERT_FILE"] = filepath.Join(dir, "ca.crt")
	expect(0, "shared-small")

	next := filepath.Join(dir, "next")
	testdrive.WriteKeyPair(t, next)
	for _, name := range []string{"tls.crt", "tls.key"} {
		require.NoError(t, os.Rename(filepath.Join(next, name), filepath.Join(dir, name)))
	}
	user["SSL_CERT_FILE"] = filepath.Join(next, "ca.crt")
	testdrive.Eventually(t, limits.Stuck, "the new certificate is served", func() bool {
		return testdrive.Run(t, user, "client", "catalog").Status == 0
	})
}

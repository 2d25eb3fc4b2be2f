package process_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/testdrive"
)

// For a login without TLS, MySQL needs keys by which the password travels: those it was launched with or, if that was
// before there were any, its own.
func TestLoginWithoutTLS(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		spec := newSpec("plain")
		end := launch(t, l, spec)
		loginWithoutTLS := func() {
			t.Helper()
			testdrive.Exec(t, connect(t, spec, end), "FLUSH PRIVILEGES") // MySQL forgets what spares a login the password
			assert.NoError(t, openDB(t, spec, end, nil).PingContext(t.Context()), "log in")
		}
		loginWithoutTLS()

		require.NoError(t, l.StopAll(t.Context()))
		for _, name := range []string{"rsa-key.pem", "rsa.pem"} {
			err := os.Remove(filepath.Join(cfg.Dir, "instances", spec.ID, "tls", name))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // MariaDB has none
				t.Fatal(err)
			}
		}
		l = open(t, cfg)
		require.NoError(t, l.StartAll(t.Context()))
		loginWithoutTLS()
	})
}

package store_test

import (
	"context"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/cmd/mysql-broker/dev/pgcluster"
	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestTLSOfPostgreSQL connects to a PostgreSQL that takes TLS connections only.
func TestTLSOfPostgreSQL(t *testing.T) {
	t.Parallel()
	ca, server := startWithTLS(t)
	caFile := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(caFile, []byte(ca), 0o600))
	foreign, _, _ := testdrive.NewKeyPair(t, "127.0.0.1")
	for _, c := range []struct {
		what, host, mode, ca string
		works                bool
	}{
		{"verified, CA in the URL", "127.0.0.1", "verify-full", ca, true},
		{"verified, CA in a file", "127.0.0.1", "verify-full", caFile, true},
		{"another CA", "127.0.0.1", "verify-full", foreign, false},
		{"another host name", "localhost", "verify-full", ca, false},
		{"any host name", "localhost", "verify-ca", ca, true},
		{"any host name, another CA", "localhost", "verify-ca", foreign, false},
		{"system's CAs", "127.0.0.1", "verify-full", "", false},
		{"not verified", "127.0.0.1", "require", "", true},
		{"plain text", "127.0.0.1", "disable", "", false},
	} {
		u := *server
		u.Host = net.JoinHostPort(c.host, u.Port())
		query := url.Values{"sslmode": {c.mode}}
		if c.ca != "" {
			query.Set("sslrootcert", c.ca)
		}
		u.RawQuery = query.Encode()
		expectReached(t, c.what, u, c.works)
	}
	plain, err := url.Parse(servers.Postgres(t))
	require.NoError(t, err)
	plain.RawQuery = "sslmode=require"
	expectReached(t, "a server without TLS", *plain, false)
}

func expectReached(t *testing.T, what string, u url.URL, works bool) {
	t.Helper()
	_, err := store.Migrate(t.Context(), u.String())
	assert.Equal(t, works, err == nil, "%s: %v", what, err)
	password, _ := u.User.Password()
	assert.False(t, err != nil && strings.Contains(err.Error(), password),
		"%s: the error quotes the password: %v", what, err)
}

// startWithTLS starts a PostgreSQL with a certificate for 127.0.0.1, and returns the CA in PEM and its URL.
func startWithTLS(t *testing.T) (ca string, server *url.URL) {
	t.Helper()
	servers.Needed(t)
	dir, err := os.MkdirTemp("", "pgtls") // not t.TempDir, which the server's user may not enter
	if err == nil {
		err = os.Chmod(dir, 0o711)
	}
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	cluster, err := pgcluster.Start(t.Context(), pgcluster.Config{Dir: filepath.Join(dir, "postgres")})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cluster.Stop(context.Background())) })
	ca, key, leaf := testdrive.NewKeyPair(t, "127.0.0.1")
	data := filepath.Join(dir, "postgres", "data")
	for name, content := range map[string]string{"server.crt": string(leaf), "server.key": string(key),
		"pg_hba.conf": "hostssl all all 127.0.0.1/32 md5\n"} {
		writeLike(t, data, name, content)
	}
	exec(t, cluster.URL(), "ALTER SYSTEM SET ssl = on", "SELECT pg_reload_conf()")
	if server, err = url.Parse(cluster.URL()); err != nil {
		t.Fatal("the cluster's URL is none") // err would show its password
	}
	plain := *server
	plain.RawQuery = "sslmode=disable"
	testdrive.Eventually(t, limits.Stuck, "the server has read its new settings, and refuses plain text", func() bool {
		conn, err := pgx.Connect(t.Context(), plain.String())
		if err == nil {
			require.NoError(t, conn.Close(t.Context()))
		}
		return err != nil
	})
	return ca, server
}

// writeLike writes a file that only its directory's owner can read.
func writeLike(t *testing.T, dir, name, content string) {
	t.Helper()
	info, err := os.Stat(dir)
	require.NoError(t, err)
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	owner := info.Sys().(*syscall.Stat_t)
	require.NoError(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
}

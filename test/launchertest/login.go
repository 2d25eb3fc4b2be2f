package launchertest

import (
	"database/sql"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Connect returns connections as the administrator. If the endpoint has a CA, they use TLS and verify the server's
// certificate for the endpoint's host.
func Connect(t *testing.T, spec launcher.Spec, end launcher.Endpoint) *sql.DB {
	cfg, err := servers.Login(end.Host, end.Port, spec.AdminUser, spec.AdminPassword, string(end.CACertificate))
	require.NoError(t, err)
	return testdrive.Connect(t, cfg)
}

// lets fails the test unless the administrator can log in.
func lets(t *testing.T, spec launcher.Spec, end launcher.Endpoint) {
	assert.NoError(t, Connect(t, spec, end).PingContext(bounded(t)), "log in to %s", spec.ID)
}

// refuses fails the test unless the server says that the password is wrong.
func refuses(t *testing.T, spec launcher.Spec, end launcher.Endpoint) {
	err := Connect(t, spec, end).PingContext(bounded(t))
	assert.True(t, mysqladmin.AccessDenied(err), "log in to %s with a wrong password: %v", spec.ID, err)
}

// Visit holds a session open, which ends if the server is restarted.
func Visit(t *testing.T, spec launcher.Spec, end launcher.Endpoint) *sql.Conn {
	conn, err := Connect(t, spec, end).Conn(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

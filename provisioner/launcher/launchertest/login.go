package launchertest

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"net"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
)

// accessDenied is ER_ACCESS_DENIED_ERROR.
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html
const accessDenied = 1045

// Connect returns connections as the administrator. If the endpoint has a CA, they use TLS and verify the server's
// certificate for the endpoint's host.
func Connect(t *testing.T, spec launcher.Spec, end launcher.Endpoint) *sql.DB {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = spec.AdminUser, spec.AdminPassword
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(end.Host, strconv.Itoa(end.Port))
	cfg.Logger = &mysql.NopLogger{}
	if end.CACertificate != nil {
		roots := x509.NewCertPool()
		require.True(t, roots.AppendCertsFromPEM(end.CACertificate), "the endpoint's CA certificate is no PEM")
		cfg.TLS = &tls.Config{RootCAs: roots, ServerName: end.Host, MinVersion: tls.VersionTLS12}
	}
	connector, err := mysql.NewConnector(cfg)
	require.NoError(t, err)
	db := sql.OpenDB(connector)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// lets fails the test unless the administrator can log in.
func lets(t *testing.T, spec launcher.Spec, end launcher.Endpoint) {
	assert.NoError(t, Connect(t, spec, end).PingContext(bounded(t)), "log in to %s", spec.ID)
}

// refuses fails the test unless the server says that the password is wrong.
func refuses(t *testing.T, spec launcher.Spec, end launcher.Endpoint) {
	err := Connect(t, spec, end).PingContext(bounded(t))
	refused, ok := errors.AsType[*mysql.MySQLError](err)
	assert.True(t, ok && refused.Number == accessDenied, "log in to %s with a wrong password: %v", spec.ID, err)
}

func execute(t *testing.T, db *sql.DB, statements ...string) {
	for _, s := range statements {
		_, err := db.ExecContext(bounded(t), s)
		require.NoError(t, err, s)
	}
}

func query(t *testing.T, db *sql.DB, statement string) (n int64) {
	require.NoError(t, db.QueryRowContext(bounded(t), statement).Scan(&n), statement)
	return n
}

// visitor holds a session open, which ends if the server is restarted.
type visitor struct{ conn *sql.Conn }

func visit(t *testing.T, db *sql.DB) visitor {
	conn, err := db.Conn(bounded(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return visitor{conn}
}

// stays reports whether the server has run since the visit began.
func (v visitor) stays(t *testing.T) bool { return v.conn.PingContext(bounded(t)) == nil }

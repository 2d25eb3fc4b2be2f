package servers_test

import (
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"net"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

func TestPostgresDatabasesAreSeparate(t *testing.T) {
	t.Parallel()
	for range 2 {
		conn, err := pgx.Connect(t.Context(), servers.Postgres(t))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(t.Context())
		if _, err := conn.Exec(t.Context(), "CREATE TABLE only_once (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestEachMySQLCanBeVerified(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(s.CA)) {
			t.Fatal("no CA certificate")
		}
		cfg := mysql.NewConfig()
		cfg.User, cfg.Passwd = s.User, s.Password
		cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
		cfg.TLS = &tls.Config{RootCAs: roots, ServerName: s.Host}
		connector, err := mysql.NewConnector(cfg)
		if err != nil {
			t.Fatal(err)
		}
		db := sql.OpenDB(connector)
		defer db.Close()
		var connections int
		if err := db.QueryRowContext(t.Context(), "SELECT @@max_connections").Scan(&connections); err != nil {
			t.Fatal(err)
		}
		if connections < 500 {
			t.Errorf("%d connections, want at least 500 for tests that share the server", connections)
		}
	})
}

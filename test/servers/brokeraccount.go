package servers

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"fmt"
	"net"
	"strconv"

	"github.com/go-sql-driver/mysql"

	sharedserver "mysql-broker/deploy/shared-server"
)

// WithBrokerAccount makes the broker's account on a server, by the SQL that operators are given.
func WithBrokerAccount(ctx context.Context, s MySQL) (MySQL, error) {
	s.BrokerUser, s.BrokerPassword = sharedserver.Account, rand.Text()
	statements, err := sharedserver.Statements(s.Flavour, s.BrokerPassword)
	if err != nil {
		return s, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(s.CA))
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = s.User, s.Password
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: s.Host}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return s, err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return s, fmt.Errorf("make the broker's account: %w", err)
		}
	}
	return s, nil
}

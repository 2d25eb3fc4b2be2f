package dev

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/go-sql-driver/mysql"

	sharedserver "mysql-broker/deploy/shared-server"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/mysqld"
)

// startShared starts the shared server with a launcher, and configures it like an operator's, with the settings and the
// broker's account of deploy/shared-server. The launcher is nil if nothing was started. The string is the value of
// MYSQL_SERVERS.
func startShared(ctx context.Context, cfg Config, dir string, binary mysqld.Binary,
	s secrets) (_ launcher.Stopper, server string, err error) {
	settings, err := sharedserver.Settings(binary.Flavour)
	if err != nil {
		return nil, "", err
	}
	l, err := launchers.OpenHere(map[string]string{"LAUNCHER_DIR": dir, "LAUNCHER_PORTS": "13300-13399",
		"LAUNCHER_MYSQLD": binary.Path},
		launcher.Options{Logger: cfg.Logger, Supervise: true, UnlimitedMemory: true, Settings: settings})
	if err != nil {
		return nil, "", err
	}
	e, err := l.Launch(ctx, launcher.Spec{ID: sharedName, MemoryMB: sharedMemoryMB, AdminUser: sharedAdmin,
		AdminPassword: s.SharedPassword}, func(string) {})
	if err != nil {
		return l, "", err
	}
	if err := makeAccount(ctx, e, binary.Flavour, s); err != nil {
		return l, "", fmt.Errorf("make the broker's account: %w", err)
	}
	described, err := json.Marshal([]map[string]any{{"name": sharedName, "ca_certificate": string(e.CACertificate),
		"uri":  fmt.Sprintf("mysql://%s:%s@%s/", sharedserver.Account, s.AccountPassword, e.AdminAddress()),
		"host": e.Host, "port": e.Port}})
	return l, string(described), err
}

// makeAccount runs the operators' SQL. The account may already exist.
func makeAccount(ctx context.Context, e launcher.Endpoint, flavour string, s secrets) error {
	statements, err := sharedserver.Statements(flavour, s.AccountPassword)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(e.CACertificate) {
		return errors.New("the server has no CA certificate")
	}
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd = "tcp", e.AdminAddress(), sharedAdmin, s.SharedPassword
	cfg.TLS = &tls.Config{RootCAs: roots, ServerName: e.Host, MinVersion: tls.VersionTLS12}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

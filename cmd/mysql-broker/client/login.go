package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// login has the parts of a key's credentials that are needed to connect.
type login struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`
	Username      string `json:"username"`
	Password      string `json:"password"`
	Database      string `json:"database"`
	TLS           bool   `json:"tls"`
	CACertificate string `json:"ca_certificate"`
}

// Flavours of servers, and of the programs for them.
const (
	flavourMySQL   = "MySQL"
	flavourMariaDB = "MariaDB"
)

// inspection has facts about the server, and about what the account can see.
type inspection struct {
	flavour    string
	privileges []string // of the account on its database
	unreadable []string // routines whose text the account cannot read
	generated  []string // tables with generated columns
}

func (i inspection) may(privilege string) bool { return slices.Contains(i.privileges, privilege) }

// open prepares connections. They verify the server's certificate if the credentials have a CA.
func (l login) open() (*sql.DB, error) {
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(l.Host, strconv.Itoa(l.Port))
	cfg.User, cfg.Passwd, cfg.DBName = l.Username, l.Password, l.Database
	cfg.Timeout, cfg.TLSConfig = 30*time.Second, "preferred"
	if l.CACertificate != "" {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM([]byte(l.CACertificate)) {
			return nil, errors.New("the CA certificate in the key's credentials is not a certificate")
		}
		cfg.TLS = &tls.Config{RootCAs: roots, ServerName: l.Host, MinVersion: tls.VersionTLS12}
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// inspect queries the facts that are needed before a program runs.
func (l login) inspect(ctx context.Context) (i inspection, err error) {
	db, err := l.open()
	if err != nil {
		return i, err
	}
	defer db.Close()
	var version string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return i, fmt.Errorf("the MySQL server cannot be asked: %w", err)
	}
	i.flavour = flavourMySQL
	if strings.Contains(version, flavourMariaDB) {
		i.flavour = flavourMariaDB
	}
	i.privileges, err = column(ctx, db, "SELECT DISTINCT privilege_type FROM information_schema.schema_privileges")
	if err != nil {
		return i, fmt.Errorf("read the key's privileges: %w", err)
	}
	// https://dev.mysql.com/doc/refman/8.4/en/show-create-procedure.html
	i.unreadable, err = column(ctx, db, `SELECT CONCAT(LOWER(routine_type), ' ', routine_name)
		FROM information_schema.routines WHERE routine_schema = DATABASE() AND routine_definition IS NULL ORDER BY 1`)
	if err != nil {
		return i, fmt.Errorf("list the routines: %w", err)
	}
	i.generated, err = column(ctx, db, `SELECT DISTINCT table_name FROM information_schema.columns
		WHERE table_schema = DATABASE() AND generation_expression <> '' ORDER BY 1`)
	if err != nil {
		return i, fmt.Errorf("list the generated columns: %w", err)
	}
	return i, nil
}

func column(ctx context.Context, db *sql.DB, query string) (values []string, err error) {
	rows, err := db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var value string
		if err := rows.Scan(&value); err != nil {
			return nil, err
		}
		values = append(values, value)
	}
	return values, rows.Err()
}

// options returns an option file for MySQL's and MariaDB's programs. ca is the path of the CA. Options that some
// programs do not know have the prefix loose. https://dev.mysql.com/doc/refman/8.4/en/option-files.html
func (l login) options(p program, ca string) string {
	lines := []string{"[client]", "host=" + optionValue(l.Host), "port=" + strconv.Itoa(l.Port), "protocol=TCP",
		"user=" + optionValue(l.Username), "password=" + optionValue(l.Password), "default-character-set=utf8mb4",
		"loose-max-allowed-packet=1G", "loose-connect-timeout=30"}
	switch mysqls := p.flavour == flavourMySQL; {
	case l.CACertificate != "" && mysqls:
		lines = append(lines, "ssl-ca="+optionValue(ca), "ssl-mode=VERIFY_IDENTITY")
	case l.CACertificate != "":
		lines = append(lines, "ssl-ca="+optionValue(ca), "ssl-verify-server-cert")
	case l.TLS && mysqls:
		lines = append(lines, "ssl-mode=REQUIRED")
	case l.TLS:
		lines = append(lines, "ssl")
	}
	return strings.Join(lines, "\n") + "\n"
}

func optionValue(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(value) + `"`
}

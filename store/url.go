package store

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

// errMalformed stands for pgx's own error, which may quote the password.
var errMalformed = errors.New("parse the PostgreSQL URL: it is malformed, or names files that cannot be read")

// parseURL reads a URL or a key=value string, sslmode included. In a URL, sslrootcert may also be the certificate
// itself, in PEM, for where there are no files: a service of Cloud Foundry.
func parseURL(text string) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil || !strings.Contains(u.Query().Get("sslrootcert"), "-----BEGIN CERTIFICATE-----") {
		cfg, err := pgxpool.ParseConfig(text)
		if err != nil {
			return nil, errMalformed
		}
		return cfg, nil
	}
	file, err := os.CreateTemp("", "postgres-ca-*.pem") // pgx reads it at once, and never again
	if err != nil {
		return nil, fmt.Errorf("write the CA of PostgreSQL for its driver: %w", err)
	}
	defer func() { _ = os.Remove(file.Name()) }() // nothing secret is in it
	query := u.Query()
	_, err = file.WriteString(query.Get("sslrootcert"))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("write the CA of PostgreSQL for its driver: %w", err)
	}
	query.Set("sslrootcert", file.Name())
	u.RawQuery = query.Encode()
	return parseURL(u.String())
}

// CheckURL reports what is wrong with a URL. Nothing is connected to, and the error quotes no part of the URL.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

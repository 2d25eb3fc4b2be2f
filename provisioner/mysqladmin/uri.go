package mysqladmin

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const defaultPort = "3306"

// ConfigFromURI reads `mysql://user:password@host:3306/` (percent-escaped) or go-sql-driver's
// `user:password@tcp(host:3306)/` (not escaped). A database in it is ignored. Parameters are refused, so that one that
// asks for TLS is not silently ignored. No error quotes the URI, because it contains a password.
func ConfigFromURI(name, uri string) (Config, error) {
	parse := parseDSN
	if strings.Contains(uri, "://") {
		parse = parseURL
	}
	cfg, err := parse(uri)
	if err != nil {
		return Config{}, fmt.Errorf("URI of server %s: %w", name, err)
	}
	if cfg.User == "" {
		return Config{}, fmt.Errorf("URI of server %s: it names no user", name)
	}
	cfg.Name = name
	return cfg, nil
}

var errParameters = errors.New("parameters (after the question mark) are not supported")

func parseURL(uri string) (Config, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "mysql" || u.Hostname() == "" {
		return Config{}, errors.New("not of the form mysql://user:password@host:port/, with special characters escaped")
	}
	if u.RawQuery != "" {
		return Config{}, errParameters
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	password, _ := u.User.Password()
	return Config{Addr: net.JoinHostPort(u.Hostname(), port), User: u.User.Username(), Password: password}, nil
}

func parseDSN(dsn string) (Config, error) {
	if strings.Contains(dsn[strings.LastIndex(dsn, "/")+1:], "?") {
		return Config{}, errParameters
	}
	d, err := mysql.ParseDSN(dsn)
	if err != nil || d.Net != "tcp" {
		return Config{}, errors.New("not of the form mysql://user:password@host:port/ or user:password@tcp(host:port)/")
	}
	return Config{Addr: d.Addr, User: d.User, Password: d.Passwd}, nil
}

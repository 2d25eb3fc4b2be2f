package mysqladmin

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/go-sql-driver/mysql"
)

const defaultPort = "3306"

// ConfigFromURI reads `mysql://user:password@host:3306/` (percent-escaped; a cluster has several hosts, separated by
// commas) or go-sql-driver's
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

var errForm = errors.New("not of the form mysql://user:password@host:port/, with special characters escaped; " +
	"the nodes of a cluster are host1:port1,host2:port2")

var errParameters = errors.New("parameters (after the question mark) are not supported")

func parseURL(uri string) (Config, error) {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "mysql" || u.Host == "" {
		return Config{}, errForm
	}
	if u.RawQuery != "" {
		return Config{}, errParameters
	}
	password, _ := u.User.Password()
	cfg := Config{User: u.User.Username(), Password: password}
	for host := range strings.SplitSeq(u.Host, ",") {
		one := url.URL{Host: host}
		if one.Hostname() == "" {
			return Config{}, errForm
		}
		cfg.Nodes = append(cfg.Nodes, net.JoinHostPort(one.Hostname(), cmp.Or(one.Port(), defaultPort)))
	}
	if cfg.Addr = cfg.Nodes[0]; len(cfg.Nodes) == 1 {
		cfg.Nodes = nil
	}
	return cfg, nil
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

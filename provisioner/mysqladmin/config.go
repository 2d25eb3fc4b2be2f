package mysqladmin

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	dialTimeout = 5 * time.Second

	// lockWaitTimeout, in seconds, bounds how long a statement waits for metadata locks and for those of InnoDB.
	// The defaults are a day or a year, during which the server's thread would outlive the caller's deadline, and
	// 50 s.
	lockWaitTimeout = "2"

	// sqlMode sets the SQL mode, so that the server's default does not matter. On MariaDB, a GRANT without
	// NO_AUTO_CREATE_USER would create a missing account without a password. MySQL 8.0 never does that, and rejects the
	// mode. Only MariaDB reads the /*M! … */ part.
	sqlMode = `CONCAT('STRICT_TRANS_TABLES' /*M! , ',NO_AUTO_CREATE_USER' */)`

	// freshStatistics is appended to another setting. It keeps MySQL from returning cached sizes, which may be a day old.
	// MariaDB caches none, and skips it. https://dev.mysql.com/doc/refman/8.4/en/information-schema-optimization.html
	freshStatistics = ` /*!80000 , information_schema_stats_expiry = 0 */`
)

// Dialer opens a network connection. nil stands for net.Dialer.
type Dialer = func(ctx context.Context, network, address string) (net.Conn, error)

// Config says where a server is and how to log in.
type Config struct {
	Name     string // for errors, logs and metrics
	Addr     string // host:port; of a cluster, that of its first node
	User     string
	Password string

	// Nodes are host:port of every node of a cluster, nil for a single server.
	Nodes []string

	// ServerName is what the server's certificate is for, if that is not the host in Addr.
	ServerName string

	// CA is a PEM bundle. With it, connections use TLS only, verified against it and the server's name. Without
	// it, they use TLS where the server offers it, unverified.
	CA []byte

	MaxConns int // sessions at the same time, 0 for 16; Lock waits for one to be closed

	Dial Dialer

	// Room returns an error if the server's disk is too full to change accounts. It may be nil.
	Room func() error

	// SessionLockKey makes the names of the locks that Lock takes unguessable. All replicas of a broker must have the same
	// key. Production must set it: a tenant can take any lock whose name it knows, and so block the broker's work for
	// ever. Without a key, the names can be derived from the arguments of Lock.
	SessionLockKey []byte
}

// driver translates the configuration for go-sql-driver/mysql.
func (c Config) driver() (*mysql.Config, error) {
	host, _, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return nil, fmt.Errorf("address: %w", err)
	}
	d := mysql.NewConfig()
	d.Net, d.Addr, d.User, d.Passwd = "tcp", c.Addr, c.User, c.Password
	d.Timeout, d.DialFunc = dialTimeout, c.Dial
	d.Logger = &mysql.NopLogger{} // what it would log is also returned
	// The driver quotes arguments into the statement, which saves two round trips, and allows placeholders where a
	// prepared statement does not, as in CREATE USER.
	d.InterpolateParams = true
	d.Params = map[string]string{
		"sql_mode":                 sqlMode,
		"innodb_lock_wait_timeout": lockWaitTimeout,
		"lock_wait_timeout":        lockWaitTimeout + freshStatistics,
	}
	d.TLSConfig = "preferred"
	if c.CA != nil {
		roots := x509.NewCertPool()
		if !roots.AppendCertsFromPEM(c.CA) {
			return nil, errors.New("the CA holds no PEM certificate")
		}
		d.TLS = &tls.Config{RootCAs: roots, ServerName: cmp.Or(c.ServerName, host), MinVersion: tls.VersionTLS12}
	}
	return d, nil
}

// connector returns one whose connections have that default database, if it is not "".
func (c Config) connector(database string) (driver.Connector, error) {
	d, err := c.driver()
	if err != nil {
		return nil, err
	}
	d.DBName = database
	return mysql.NewConnector(d)
}

const defaultPort = "3306"

// ConfigFromURI reads `mysql://user:password@host:3306/` (percent-escaped; a cluster has several hosts, separated by
// commas). A database in it is ignored. Parameters are refused, so that one that asks for TLS is not silently ignored.
// No error quotes the URI, because it contains a password.
func ConfigFromURI(name, uri string) (Config, error) {
	cfg, err := parseURL(uri)
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

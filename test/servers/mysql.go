package servers

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/json"
	"errors"
	"hash/fnv"
	"net"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
)

// MySQL is a running mysqld with two accounts: one that may do everything, and one for a broker, which may do what
// deploy/shared-server gives it.
type MySQL struct {
	Flavour        string `json:"flavour"` // "mysql" or "mariadb"
	Host           string `json:"host"`
	Port           int    `json:"port"`
	User           string `json:"user"`
	Password       string `json:"password"`
	BrokerUser     string `json:"broker_user"`
	BrokerPassword string `json:"broker_password"`
	CA             string `json:"ca,omitempty"`        // PEM, empty where the server has no TLS that can be verified
	Templates      string `json:"templates,omitempty"` // what its launcher keeps of its data directory, for other launchers
}

// Address is host:port.
func (s MySQL) Address() string { return net.JoinHostPort(s.Host, strconv.Itoa(s.Port)) }

// Open prepares connections of the account that may do everything, with the server's certificate verified. It makes
// none.
func (s MySQL) Open() (*sql.DB, error) {
	if s.CA == "" {
		return nil, errors.New("the server has no CA certificate")
	}
	cfg, err := Login(s.Host, s.Port, s.User, s.Password, s.CA)
	if err != nil {
		return nil, err
	}
	return Connect(cfg)
}

// Admin is Open until the test ends.
func (s MySQL) Admin(t testing.TB) *sql.DB {
	db, err := s.Open()
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// Login is that of an account. The server's certificate is verified by a CA in PEM, if there is one.
func Login(host string, port int, user, password, ca string) (*mysql.Config, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd = user, password
	cfg.Net, cfg.Addr = "tcp", net.JoinHostPort(host, strconv.Itoa(port))
	cfg.Logger = &mysql.NopLogger{} // what it would log is also returned
	if ca != "" {
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM([]byte(ca)) {
			return nil, errors.New("the CA certificate is not one")
		}
		cfg.TLS = &tls.Config{RootCAs: pool, ServerName: host}
	}
	return cfg, nil
}

// Connect prepares connections, and makes none.
func Connect(cfg *mysql.Config) (*sql.DB, error) {
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}

// EachMySQL runs fn as a parallel subtest on every mysqld there is, or on one: see Chosen. Tests share them, and so keep
// to databases and accounts of their own.
func EachMySQL(t *testing.T, fn func(t *testing.T, server MySQL)) { EachOf(t, AllMySQL(t), fn) }

// EachOf is EachMySQL for a test that only some of them can run.
func EachOf(t *testing.T, some []MySQL, fn func(t *testing.T, server MySQL)) {
	for _, s := range Chosen(t, some) {
		t.Run(s.Flavour, func(t *testing.T) {
			t.Parallel()
			fn(t, s)
		})
	}
}

// EachOrAny is EachMySQL, but on Any where tests run on one flavour each: for a test that starts so many servers that it
// costs several times as much on MySQL.
func EachOrAny(t *testing.T, fn func(t *testing.T, server MySQL)) {
	if os.Getenv(OnOneMySQLVar) == "" {
		EachMySQL(t, fn)
		return
	}
	AnyMySQL(t, fn)
}

// AnyMySQL runs fn on Any, as a subtest named like those of EachMySQL.
func AnyMySQL(t *testing.T, fn func(t *testing.T, server MySQL)) {
	s := Any(t)
	t.Run(s.Flavour, func(t *testing.T) {
		t.Parallel()
		fn(t, s)
	})
}

// Chosen is what a test runs on: all that there is, or one of them if $TEST_ON_ONE_MYSQL is set.
func Chosen[Server any](t testing.TB, all []Server) []Server {
	if os.Getenv(OnOneMySQLVar) == "" || len(all) < 2 {
		return all
	}
	return []Server{one(t, all)}
}

// one depends on the test's name alone, so that it is always the same. For three of four tests it is the last one, which
// a package installed (see mysqld.FindBinaries): on Debian that is MariaDB, which starts several times faster than MySQL.
func one[Server any](t testing.TB, all []Server) Server {
	hash := fnv.New32a()
	hash.Write([]byte(t.Name()))
	n := len(all) - 1
	if sum := hash.Sum32(); n > 0 && sum%4 == 0 {
		n = int(sum / 4 % uint32(n))
	}
	return all[n]
}

// Any is the mysqld for what does not depend on the flavour: MariaDB where there is one, as it starts several times faster
// than MySQL and needs a fraction of its CPU time.
func Any(t testing.TB) MySQL {
	all := AllMySQL(t)
	if n := slices.IndexFunc(all, func(s MySQL) bool { return s.Flavour == mysqld.MariaDB }); n >= 0 {
		return all[n]
	}
	return all[0]
}

// AllMySQL is every mysqld there is, for a test that needs several at once.
func AllMySQL(t testing.TB) []MySQL {
	Needed(t)
	var all []MySQL
	if text := os.Getenv(MySQLVar); text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &all), MySQLVar)
		return all
	}
	withOwn(t, func(f *Fleet) (err error) {
		all, err = f.AllMySQL(context.Background())
		return err
	})
	return all
}

// Parameters is a query for the parameters of a database's routines, of which SHOW CREATE does not tell everything.
const Parameters = "SELECT specific_name, routine_type, parameter_mode, parameter_name, dtd_identifier, character_set_name, " +
	"collation_name FROM information_schema.parameters WHERE specific_schema = DATABASE() " +
	"ORDER BY specific_name, routine_type, ordinal_position"

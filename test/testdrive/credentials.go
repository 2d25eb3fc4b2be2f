package testdrive

import (
	"database/sql"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/audit"
	"mysql-broker/test/servers"
)

// Credentials are what an application reads from its binding.
type Credentials struct {
	audit.Credentials
	URI      string `json:"uri"`
	JDBCURL  string `json:"jdbcUrl"`
	Hostname string `json:"hostname"`
	TLS      bool   `json:"tls"`
}

// Credentials reads those of a response, and remembers that the broker's log must not hold them.
func (p Platform) Credentials(t *testing.T, r Response) Credentials {
	raw, err := json.Marshal(r.Body["credentials"])
	require.NoError(t, err)
	var c Credentials
	require.NoError(t, json.Unmarshal(raw, &c), "read the credentials")
	require.True(t, c.Password != "", "the answer has no password: %s", r.Raw)
	p.Seen.Add(c.Password)
	return c
}

// Fields is a login by the fields, with the server's certificate verified where there is one.
func (c Credentials) Fields(t *testing.T) *mysql.Config {
	return c.Login(t, c.Username, c.Password, net.JoinHostPort(c.Host, strconv.Itoa(c.Port)), c.Database)
}

// Plain is a login by the fields without TLS.
func (c Credentials) Plain(t *testing.T) *mysql.Config {
	cfg := c.Fields(t)
	cfg.TLS = nil
	return cfg
}

func (c Credentials) ByURI(t *testing.T) *mysql.Config {
	u := ParseURL(t, c.URI)
	password, _ := u.User.Password()
	return c.Login(t, u.User.Username(), password, u.Host, strings.TrimPrefix(u.Path, "/"))
}

// ByJDBC is a login as Connector/J would read the JDBC URL.
func (c Credentials) ByJDBC(t *testing.T) *mysql.Config {
	u := ParseURL(t, strings.TrimPrefix(c.JDBCURL, "jdbc:"))
	return c.Login(t, u.Query().Get("user"), u.Query().Get("password"), u.Host, strings.TrimPrefix(u.Path, "/"))
}

func ParseURL(t *testing.T, text string) *url.URL {
	u, err := url.Parse(text)
	require.NoError(t, err)
	require.Equal(t, "mysql", u.Scheme, "the scheme of the URL")
	return u
}

func (c Credentials) Login(t *testing.T, user, password, address, database string) *mysql.Config {
	cfg, err := servers.Login(c.Host, c.Port, user, password, c.CACertificate)
	require.NoError(t, err)
	cfg.Addr, cfg.DBName = address, database
	return cfg
}

// Connect prepares connections until the test ends. None is made yet.
func Connect(t *testing.T, cfg *mysql.Config) *sql.DB {
	db, err := servers.Connect(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	return db
}

// Open logs in by the fields, until the test ends.
func (c Credentials) Open(t *testing.T) *sql.DB { return Open(t, c.Fields(t)) }

func Open(t *testing.T, cfg *mysql.Config) *sql.DB {
	db := Connect(t, cfg)
	require.NoError(t, db.PingContext(t.Context()), "log in as %s", cfg.User)
	return db
}

// ExpectRefused fails the test if a login works, or fails otherwise than by the server's refusal.
func ExpectRefused(t *testing.T, cfg *mysql.Config) {
	err := Connect(t, cfg).PingContext(t.Context())
	refusal := (*mysql.MySQLError)(nil)
	require.True(t, errors.As(err, &refusal), "log in as %s: %v instead of a refusal by the server", cfg.User, err)
}

// Admin logs in to the shared server as an administrator, until the test ends.
func (p Platform) Admin(t *testing.T) *sql.DB {
	s := p.Server
	return Open(t, Credentials{}.Login(t, s.User, s.Password, s.Address(), ""))
}

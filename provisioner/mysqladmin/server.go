// Package mysqladmin is the SQL of the broker: databases, accounts, grants, sessions and sizes on a server, which is
// MySQL 8.0 or later or MariaDB 10.6 or later. The flavour is detected, not configured.
//
// Reads are methods of Server. Changes are methods of Session, which Server.Lock opens.
package mysqladmin

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"mysql-broker/provisioner/fair"
)

const (
	defaultMaxConns = 16

	// accountStatements is how many statements on accounts run at the same time. Servers execute them one after the other,
	// and get slower if more wait for each other.
	accountStatements = 4
	maxReadConns      = 4
	maxIdleTime       = 5 * time.Minute
)

// Server is a mysqld that the broker administers. It is safe for concurrent use.
type Server struct {
	Marks     Marks
	BinaryLog BinaryLog
	Setup     Setup
	Cluster   Cluster
	Sizes     Sizes

	config Config

	// Reads have their own pool, so that workers that all hold a session cannot block each other.
	sessions, reads *pool
	connector       driver.Connector // of connections outside of the pools
	nodes           *nodes           // nil for a single server

	turns    *fair.Slots // one for each session
	accounts *fair.Slots // the same, for statements on accounts

	// The last results of CheckPrivileges: whether the server refuses to drop definers, and whether the broker's account
	// may read MySQL's list of threads.
	refusesOrphans, readsThreads atomic.Bool
}

// Open prepares connections to a server, without I/O.
func Open(cfg Config) (*Server, error) {
	connector, err := cfg.connector("")
	var all *nodes
	if err == nil {
		all, err = openNodes(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	maxConns := cmp.Or(cfg.MaxConns, defaultMaxConns)
	var pooled driver.Connector = traced{connector, cfg.Addr}
	if all != nil {
		pooled = all
	}
	s := &Server{
		config:    cfg,
		sessions:  newPool(pooled, maxConns),
		reads:     newPool(pooled, maxReadConns),
		connector: connector,
		nodes:     all,
		turns:     fair.NewSlots(maxConns),
		accounts:  fair.NewSlots(accountStatements),
	}
	s.Marks, s.BinaryLog, s.Setup, s.Cluster, s.Sizes = Marks{s}, BinaryLog{s}, Setup{s}, Cluster{s}, Sizes{s}
	return s, nil
}

// Marks are what the broker writes on a server to recognize it, and to find its instances again.
type Marks struct{ s *Server }

// BinaryLog is that of a server.
type BinaryLog struct{ s *Server }

// Setup is what the broker needs of a server: privileges, settings, character sets and time zones.
type Setup struct{ s *Server }

// Sizes are those of the databases on a server.
type Sizes struct{ s *Server }

// Cluster is what only concerns the nodes of a cluster.
type Cluster struct{ s *Server }

// pool has connections to a server. If others have taken all that the server allows, whoever needs a connection waits
// for one of the pool instead of failing: KeepReserve keeps one.
type pool struct {
	*sql.DB
	max int
}

// scarceTime is how long a pool opens no more connections after the server had none left.
const scarceTime = 2 * time.Second

func newPool(connector driver.Connector, maxConns int) *pool {
	p := &pool{max: maxConns}
	p.DB = sql.OpenDB(scarce{connector, p})
	p.limit(maxConns)
	p.SetConnMaxIdleTime(maxIdleTime)
	return p
}

func (p *pool) limit(maxConns int) {
	p.SetMaxOpenConns(maxConns)
	p.SetMaxIdleConns(maxConns)
}

// restore ends the time in which a pool opens no more connections. If none is free, it opens one, for whoever waits.
func (p *pool) restore() {
	p.limit(p.max)
	ctx, cancel := context.WithTimeout(context.Background(), scarceTime)
	defer cancel()
	_ = p.PingContext(ctx)
}

// scarce limits its pool to the connections that it has once the server allows no more.
type scarce struct {
	driver.Connector
	pool *pool
}

// Connect implements driver.Connector. With ErrBadConn, database/sql tries again, and then waits for a connection of
// the pool.
func (c scarce) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if !hasNumber(err, errTooManyConnections) {
		return conn, err
	}
	others := c.pool.Stats().OpenConnections - 1 // this attempt is counted
	if others == 0 {
		return nil, err
	}
	c.pool.limit(others)
	time.AfterFunc(scarceTime, c.pool.restore)
	return nil, fmt.Errorf("%w: %w", err, driver.ErrBadConn)
}

// Name is the server's configured name.
func (s *Server) Name() string { return s.config.Name }

// IsCluster reports whether the server is a cluster whose nodes are known.
func (s *Server) IsCluster() bool { return s.nodes != nil }

// Stats returns the figures of the pool of sessions, of which there are at most Config.MaxConns.
func (s *Server) Stats() sql.DBStats { return s.sessions.Stats() }

// Ping reports whether the server answers.
func (s *Server) Ping(ctx context.Context) error {
	return s.explain("ping", s.reads.PingContext(ctx))
}

// Clock reads the server's clock, to the second.
func (s *Server) Clock(ctx context.Context) (time.Time, error) {
	var seconds int64
	err := s.reads.QueryRowContext(ctx, "SELECT UNIX_TIMESTAMP()").Scan(&seconds)
	return time.Unix(seconds, 0), s.explain("read the clock", err)
}

// Close closes the connections. Those of sessions in use stay open until the sessions are closed.
func (s *Server) Close() error {
	err := errors.Join(s.sessions.Close(), s.reads.Close())
	if s.nodes != nil {
		err = errors.Join(err, s.nodes.close())
	}
	return s.explain("close", err)
}

// explain adds the operation and the server to an error.
func (s *Server) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server %s: %s: %w", s.config.Name, doing, err)
}

// Transport is how clients can use TLS with a server.
type Transport struct {
	TLS     bool // it is offered
	TLSOnly bool // no application can log in without it
}

// Transport asks the server whether it offers and requires TLS. TLSOnly is also true for a MySQL without the RSA keys
// by which clients without TLS encrypt passwords.
// https://dev.mysql.com/doc/refman/8.4/en/using-encrypted-connections.html#mandatory-encrypted-connections
// https://dev.mysql.com/doc/refman/8.4/en/caching-sha2-pluggable-authentication.html
func (on Setup) Transport(ctx context.Context) (Transport, error) {
	var t Transport
	version, err := on.status(ctx, "SESSION", "Ssl_version") // of a connection that uses TLS if the server offers it
	if err == nil {
		err = on.s.reads.QueryRowContext(ctx, "SELECT @@GLOBAL.require_secure_transport").Scan(&t.TLSOnly)
	}
	var flavour Flavour
	if err == nil {
		flavour, err = on.s.Flavour(ctx)
	}
	key := "not needed"
	if err == nil && flavour.Name == MySQL {
		key, err = on.status(ctx, "GLOBAL", "Caching_sha2_password_rsa_public_key")
	}
	t.TLS, t.TLSOnly = version != "", t.TLSOnly || key == ""
	return t, on.s.explain("read the TLS settings", err)
}

func (on Setup) status(ctx context.Context, scope, name string) (value string, err error) {
	err = on.s.reads.QueryRowContext(ctx, "SHOW "+scope+" STATUS LIKE '"+name+"'").Scan(&name, &value)
	return value, err
}

// Databases lists all databases of the server that the broker's account may see, the server's own included.
func (s *Server) Databases(ctx context.Context) ([]string, error) {
	names, err := names(ctx, s.reads, "SHOW DATABASES")
	return names, s.explain("list the databases", err)
}

// Accounts lists the accounts that may log in from any host, as all accounts of Accounts.Create may. It includes locked
// ones.
func (s *Server) Accounts(ctx context.Context) ([]string, error) {
	names, err := names(ctx, s.reads, "SELECT user FROM mysql.user WHERE host = '%'")
	return names, s.explain("list the accounts", err)
}

// queryer is a connection or a pool.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// EachRow calls fn with each row of a query, and ends at its first error.
func EachRow(ctx context.Context, on queryer, query string, fn func(*sql.Rows) error, args ...any) error {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		if err := fn(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// names runs a query that returns names.
func names(ctx context.Context, on queryer, query string, args ...any) (names []string, err error) {
	err = EachRow(ctx, on, query, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		names = append(names, name)
		return err
	}, args...)
	return names, err
}

// readPairs reads a query with two columns, names and values.
func readPairs[V any](ctx context.Context, on queryer, into map[string]V, query string, args ...any) error {
	return EachRow(ctx, on, query, func(rows *sql.Rows) error {
		var name string
		var value V
		err := rows.Scan(&name, &value)
		into[name] = value
		return err
	}, args...)
}

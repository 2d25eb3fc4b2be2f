// Package mysqladmin is the SQL of the broker: databases, accounts, grants, sessions and sizes on a server, which is
// MySQL 8.0 or later or MariaDB 10.6 or later. Which of them it is, is asked of the server, never configured.
//
// Reads are methods of Server. Whatever changes the server goes through a Session, which Server.Lock opens.
package mysqladmin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	defaultMaxConns = 16

	// accountStatements is how many statements on accounts are under way at the same time. The servers carry them out
	// one after the other, and get slower where more wait for each other.
	accountStatements = 4
	maxReadConns      = 4
	maxIdleTime       = 5 * time.Minute
)

// Server is a mysqld that the broker administers. It is safe for concurrent use.
type Server struct {
	name string

	lockKey []byte

	// Reads have a pool of their own, so that workers which all hold a session can't wait for each other's.
	sessions, reads *sql.DB
	connector       driver.Connector // of connections beside theirs

	// turns has room for one entry for each session. Who waits longest is next, whereas a sql.DB takes anyone.
	turns    chan struct{}
	accounts chan struct{} // the same, for statements on accounts

	// What CheckPrivileges last found: that the server refuses to drop the definer of anything, that the broker's account
	// may read where MariaDB keeps routines and events, and that it may read MySQL's list of threads.
	refusesOrphans, readsPrograms, readsThreads atomic.Bool
}

// Open prepares connections to a server. It does no I/O: a server that is down is noticed by its first use.
func Open(cfg Config) (*Server, error) {
	driverConfig, err := cfg.driver()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	connector, err := mysql.NewConnector(driverConfig)
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", cfg.Name, err)
	}
	maxConns := cfg.MaxConns
	if maxConns == 0 {
		maxConns = defaultMaxConns
	}
	return &Server{
		name:      cfg.Name,
		lockKey:   cfg.SessionLockKey,
		sessions:  pool(traced{connector, cfg.Addr}, maxConns),
		reads:     pool(traced{connector, cfg.Addr}, maxReadConns),
		connector: connector,
		turns:     make(chan struct{}, maxConns),
		accounts:  make(chan struct{}, accountStatements),
	}, nil
}

func pool(connector driver.Connector, maxConns int) *sql.DB {
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(maxConns)
	db.SetMaxIdleConns(maxConns)
	db.SetConnMaxIdleTime(maxIdleTime)
	return db
}

// Name is the server's configured name.
func (s *Server) Name() string { return s.name }

// Stats tells how the connections for sessions, of which there are Config.MaxConns, are used.
func (s *Server) Stats() sql.DBStats { return s.sessions.Stats() }

// Ping reports whether the server answers.
func (s *Server) Ping(ctx context.Context) error {
	return s.explain("ping", s.reads.PingContext(ctx))
}

// Close closes the connections. Those of sessions in use stay open until the sessions are closed.
func (s *Server) Close() error {
	return s.explain("close", errors.Join(s.sessions.Close(), s.reads.Close()))
}

// explain wraps an error with what was being done where.
func (s *Server) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("server %s: %s: %w", s.name, doing, err)
}

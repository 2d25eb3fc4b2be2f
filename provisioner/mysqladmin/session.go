package mysqladmin

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
)

const releaseTimeout = 5 * time.Second

// Session is one connection that holds a session lock. All statements run on it. Once it fails, or another session
// takes the lock, all further statements fail. Every method may run twice with the same result. A Session is for one
// goroutine and must be closed.
type Session struct {
	conn    *sql.Conn
	server  *Server
	dialect dialect
	alive   func() error
	lock    string
	failed  bool

	organization string
	free         func() // gives the server's slot back
}

// exec runs a statement that changes something, if the caller's lease still holds.
func (s *Session) exec(ctx context.Context, statement string, args ...any) error {
	if err := s.alive(); err != nil {
		s.failed = true
		return err
	}
	fault.Statement("before", statement)
	_, err := s.conn.ExecContext(ctx, statement, args...)
	fault.Statement("after", statement)
	if err != nil {
		s.failed = true
		err = s.server.nodes.demoted(err)
	}
	return err
}

// execAccount is exec for a statement on an account. It waits while accountStatements others run. If the tables of
// accounts are damaged, it repairs them.
func (s *Session) execAccount(ctx context.Context, statement string, args ...any) error {
	if err := s.server.room(); err != nil {
		return err
	}
	free, err := s.server.accounts.Take(ctx, s.organization)
	if err != nil {
		return fmt.Errorf("wait for other statements on accounts: %w", err)
	}
	defer free()
	if err = s.exec(ctx, statement, args...); !Damaged(err) {
		return err
	}
	if repairing := s.repairAccounts(ctx); repairing != nil {
		return errors.Join(err, repairing)
	}
	return s.exec(ctx, statement, args...)
}

// exists runs a query that yields one boolean.
func (s *Session) exists(ctx context.Context, query string, args ...any) (found bool, err error) {
	err = s.conn.QueryRowContext(ctx, query, args...).Scan(&found)
	if err != nil {
		s.failed = true
	}
	return found, err
}

// Close releases the lock and returns the connection; after any failure it discards the connection instead, which ends
// the lock too.
func (s *Session) Close() error {
	defer s.free()
	if s.failed || !s.release() {
		// Raw passes ErrBadConn on to the pool, which then closes the connection.
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
	if err := s.conn.Close(); err != nil && !errors.Is(err, sql.ErrConnDone) {
		return fmt.Errorf("close session: %w", err)
	}
	return nil
}

// release releases the lock, even if the caller's context is done, and reports whether the session held it.
func (s *Session) release() bool {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	var released sql.NullBool
	err := s.conn.QueryRowContext(ctx, "SELECT RELEASE_LOCK(?)", s.lock).Scan(&released)
	return err == nil && released.Bool
}

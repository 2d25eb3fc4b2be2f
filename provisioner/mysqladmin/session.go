package mysqladmin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
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
	Accounts  Accounts
	Databases Databases
	Writes    Writes

	conn    *sql.Conn
	server  *Server
	dialect dialect
	alive   func() error
	lock    string
	failed  bool

	organization string
	free         func() // gives the server's slot back
}

// Accounts are the changes of a session to accounts.
type Accounts struct{ s *Session }

// Databases are the changes of a session to databases.
type Databases struct{ s *Session }

// Writes are the changes of a session to the privileges to write, and what it knows of those who write.
type Writes struct{ s *Session }

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
	if err := s.server.config.room(); err != nil {
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
	if repairing := s.Accounts.repair(ctx); repairing != nil {
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

// fail says what was being done when a statement failed. Nobody gets the connection after that.
func (s *Session) fail(doing string, err error) error {
	if err != nil {
		s.failed = true
	}
	return explain(doing, err)
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

// lockWait is how long Lock waits for a session that it has killed, which may still finish a statement that cannot be
// interrupted, such as DROP DATABASE.
const lockWait = 10 * time.Second

// Lock opens a session that excludes all others with the same key, of all replicas of the broker. It takes a user-level
// lock on the server, which ends with the connection. If another connection holds the lock, Lock kills it and waits for
// its end. So no statement of a worker that was paused, or died, can take effect once Lock has returned.
//
// alive returns an error if the caller has lost its lease. It is called before another connection is killed, after the
// lock is taken, and before every statement that changes something. The session fails with its error.
func (s *Server) Lock(ctx context.Context, key string, alive func() error) (*Session, error) {
	return s.LockIf(ctx, key, "", nil, alive)
}

// LockIf is Lock for an organization, if it is not "". It first calls allowed, which may read the server's mark. It
// kills nobody if that returns an error.
func (s *Server) LockIf(ctx context.Context, key, organization string, allowed func(MarkReader) error,
	alive func() error) (*Session, error) {
	free, err := s.turns.Take(ctx, organization)
	if err != nil {
		return nil, s.explain("wait for a session", err)
	}
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		free()
		return nil, s.explain("connect", err)
	}
	session := &Session{conn: conn, server: s, lock: lockName(s.config.SessionLockKey, key), alive: alive, free: free,
		organization: organization}
	session.Accounts, session.Databases, session.Writes = Accounts{session}, Databases{session}, Writes{session}
	if err := session.take(ctx, allowed); err != nil {
		session.failed = true
		return nil, s.explain("take the session lock", errors.Join(err, session.Close()))
	}
	return session, nil
}

// take takes the lock, over if necessary, and checks the caller's lease.
func (s *Session) take(ctx context.Context, allowed func(MarkReader) error) error {
	locked, holder, err := s.tryLock(ctx)
	if err != nil {
		return err
	}
	if allowed != nil {
		if err := allowed(s); err != nil {
			return err
		}
	}
	if !locked {
		if err := s.takeOver(ctx, holder); err != nil {
			return err
		}
	}
	if err := s.fence(ctx); err != nil {
		return s.server.nodes.demoted(err)
	}
	return s.alive()
}

// tryLock takes the lock if nobody holds it. Otherwise it returns the connection that does, if that has not ended
// meanwhile. It also finds out the server's dialect.
func (s *Session) tryLock(ctx context.Context) (locked bool, holder sql.NullInt64, err error) {
	var version string
	row := s.conn.QueryRowContext(ctx, "SELECT VERSION(), GET_LOCK(?, 0), IS_USED_LOCK(?)", s.lock, s.lock)
	if err := row.Scan(&version, &locked, &holder); err != nil {
		return false, holder, err
	}
	flavour, err := parseVersion(version)
	if err != nil {
		return false, holder, err
	}
	s.dialect = dialects[flavour.Name]
	if flavour.Name == MariaDB && !flavour.before(11, 3, 0) {
		s.dialect.adminPrivileges += ", SHOW CREATE ROUTINE"
	}
	return locked, holder, nil
}

// lockName derives the name of the lock from a key; servers allow 64 characters and ignore case. The name cannot be
// guessed without the secret: GET_LOCK needs no privilege, so that tenants could take the lock too.
// https://dev.mysql.com/doc/refman/8.4/en/locking-functions.html
func lockName(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return "mysql-broker:" + hex.EncodeToString(mac.Sum(nil)[:24])
}

// takeOver kills the connection that holds the lock, if there is one, and takes the lock.
func (s *Session) takeOver(ctx context.Context, holder sql.NullInt64) error {
	if holder.Valid {
		if err := s.kill(ctx, holder.Int64); err != nil {
			return fmt.Errorf("kill the connection that holds the lock: %w", err)
		}
	}
	var locked sql.NullBool
	row := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", s.lock, lockWait.Seconds())
	if err := row.Scan(&locked); err != nil {
		return fmt.Errorf("take the lock: %w", err)
	}
	if !locked.Bool {
		return errLockHeld
	}
	return nil
}

// errLockHeld counts as Unreachable: the server is still busy with the last statement of the previous session.
var errLockHeld = errors.New("another connection still holds the lock")

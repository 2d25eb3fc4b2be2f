package mysqladmin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
)

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
	return s.open(ctx, key).own(ctx, alive)
}

// opened is a session that may not have the lock yet.
type opened struct {
	session *Session
	locked  bool
	holder  sql.NullInt64 // the connection that has the lock instead, if any
	err     error
}

// open takes a connection, and the lock if nobody holds it.
func (s *Server) open(ctx context.Context, key string) opened {
	select {
	case s.turns <- struct{}{}:
	case <-ctx.Done():
		return opened{err: s.explain("wait for a session", context.Cause(ctx))}
	}
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		<-s.turns
		return opened{err: s.explain("connect", err)}
	}
	o := opened{session: &Session{conn: conn, server: s, lock: lockName(s.lockKey, key)}}
	if err := o.lock(ctx); err != nil {
		o.session.failed = true
		o.err = s.explain("take the session lock", errors.Join(err, o.session.Close()))
	}
	return o
}

func (o *opened) lock(ctx context.Context) error {
	var version string
	row := o.session.conn.QueryRowContext(ctx, "SELECT VERSION(), GET_LOCK(?, 0), IS_USED_LOCK(?)", o.session.lock,
		o.session.lock)
	if err := row.Scan(&version, &o.locked, &o.holder); err != nil {
		return err
	}
	flavour, err := parseVersion(version)
	if err != nil {
		return err
	}
	o.session.dialect = dialects[flavour.Name]
	if flavour.Name == MariaDB && !flavour.before(11, 3, 0) {
		o.session.dialect.adminPrivileges += ", SHOW CREATE ROUTINE"
	}
	return nil
}

// own takes the lock over if necessary, and checks the caller's lease.
func (o opened) own(ctx context.Context, alive func() error) (*Session, error) {
	if o.err != nil {
		return nil, o.err
	}
	o.session.alive = alive
	var err error
	if !o.locked && !fault.SessionLocksOff {
		err = o.session.takeOver(ctx, o.holder)
	}
	if err == nil {
		if err = o.session.fence(ctx); err != nil {
			err = o.session.server.nodes.demoted(err)
		}
	}
	if err == nil {
		err = alive()
	}
	if err != nil {
		o.session.failed = true
		return nil, o.session.server.explain("take the session lock", errors.Join(err, o.session.Close()))
	}
	return o.session, nil
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

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

// lockWait is how long Lock waits for a killed predecessor, in which a statement that can't be interrupted, such as
// DROP DATABASE, may still run to its end.
const lockWait = 10 * time.Second

// Lock opens a session that alone may work on what key names, in all replicas of the broker. It takes a user-level
// lock on the server that lives and dies with the connection; where another connection holds it, that one is killed
// and waited for. So no statement of a worker that was paused, or died, can take effect once Lock has returned.
//
// alive tells whether the caller still holds its lease: it is asked before another's connection is killed, again when
// the lock is taken, and before every statement that changes something. The session fails with its error.
func (s *Server) Lock(ctx context.Context, key string, alive func() error) (*Session, error) {
	return s.open(ctx, key).own(ctx, alive)
}

// opened is a session of which is not known yet whether it may work.
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

// own makes sure that the session has the lock and its caller the lease.
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
		err = alive()
	}
	if err != nil {
		o.session.failed = true
		return nil, o.session.server.explain("take the session lock", errors.Join(err, o.session.Close()))
	}
	return o.session, nil
}

// lockName turns any key into a lock's name, of which the servers take 64 characters at most, in either case. It cannot
// be worked out without the secret: GET_LOCK needs no privilege, so tenants could take the lock too.
// https://dev.mysql.com/doc/refman/8.4/en/locking-functions.html
func lockName(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return "mysql-broker:" + hex.EncodeToString(mac.Sum(nil)[:24])
}

// takeOver kills the connection that holds the lock, if any still does, and takes the lock.
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

// errLockHeld counts as Unreachable: the server is busy with the predecessor's last statement.
var errLockHeld = errors.New("another connection still holds the lock")

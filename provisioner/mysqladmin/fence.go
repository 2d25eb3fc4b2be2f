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

// fenceWait is how long Fence waits for a killed predecessor, in which a statement that can't be interrupted, such as
// DROP DATABASE, may still run to its end.
const fenceWait = 10 * time.Second

// Fence opens a session that alone may work on what key names, in all replicas of the broker. It takes a user-level
// lock on the server that lives and dies with the connection; where another connection holds it, that one is killed
// and waited for. So no statement of a worker that was paused, or died, can take effect once Fence has returned.
//
// alive tells whether the caller still holds its lease: it is asked before another's connection is killed, again when
// the lock is taken, and before every statement that changes something. The session fails with its error.
func (s *Server) Fence(ctx context.Context, key string, alive func() error) (*Session, error) {
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		return nil, s.explain("connect", err)
	}
	session := &Session{conn: conn, alive: alive, lock: lockName(s.fenceKey, key)}
	if err := session.begin(ctx); err != nil {
		session.failed = true
		return nil, s.explain("fence", errors.Join(err, session.Close()))
	}
	return session, nil
}

// lockName turns any key into a lock's name, of which the servers take 64 characters at most, in either case. It cannot
// be worked out without the secret: GET_LOCK needs no privilege, so tenants could take the lock too.
// https://dev.mysql.com/doc/refman/8.4/en/locking-functions.html
func lockName(secret []byte, key string) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(key))
	return "mysql-broker:" + hex.EncodeToString(mac.Sum(nil)[:24])
}

func (s *Session) begin(ctx context.Context) error {
	var version string
	var locked bool
	var holder sql.NullInt64
	row := s.conn.QueryRowContext(ctx, "SELECT VERSION(), GET_LOCK(?, 0), IS_USED_LOCK(?)", s.lock, s.lock)
	if err := row.Scan(&version, &locked, &holder); err != nil {
		return err
	}
	flavour, err := parseVersion(version)
	if err != nil {
		return err
	}
	s.dialect = dialects[flavour.Name]
	if !locked && !fault.FencesOff {
		if err := s.takeOver(ctx, holder); err != nil {
			return err
		}
	}
	return s.alive()
}

// takeOver kills the connection that holds the lock, if any still does, and takes the lock.
func (s *Session) takeOver(ctx context.Context, holder sql.NullInt64) error {
	if holder.Valid {
		if err := s.kill(ctx, holder.Int64); err != nil {
			return fmt.Errorf("kill the connection that holds the lock: %w", err)
		}
	}
	var locked sql.NullBool
	row := s.conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", s.lock, fenceWait.Seconds())
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

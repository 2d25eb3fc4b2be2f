package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// InsertSession keeps what is known of somebody who signed in to the dashboard, for some time. It is for the dashboard
// to encrypt. Some sessions that have ended are deleted at the same time: more than are made, so that they do not pile
// up.
func (s *Store) InsertSession(ctx context.Context, id, sealed []byte, lifetime time.Duration) error {
	_, err := s.db.Exec(ctx, `WITH ended AS (DELETE FROM session WHERE id IN (
			SELECT id FROM session WHERE ends_at <= now() ORDER BY ends_at LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO session (id, sealed, ends_at) VALUES ($1, $2, now() + $3)`, id, sealed, lifetime)
	return err
}

// Session reads what InsertSession wrote, and for how long it still holds, or returns ErrNotFound.
func (s *Store) Session(ctx context.Context, id []byte) (sealed []byte, left time.Duration, err error) {
	type row struct {
		Sealed []byte
		Left   time.Duration
	}
	found, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[row],
		"SELECT sealed, ends_at - now() FROM session WHERE id = $1 AND ends_at > now()", id)
	return found.Sealed, found.Left, err
}

// DeleteSession ends a session; one that is not there is fine.
func (s *Store) DeleteSession(ctx context.Context, id []byte) error {
	_, err := s.db.Exec(ctx, "DELETE FROM session WHERE id = $1", id)
	return err
}

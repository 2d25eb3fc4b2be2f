package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sessions records the sessions of the dashboard.
type Sessions struct{ *database }

// Insert records a sign-in to the dashboard for its lifetime. The dashboard encrypts it. The statement also
// deletes up to 100 sessions that have ended, so that they do not accumulate.
func (s Sessions) Insert(ctx context.Context, id, sealed []byte, lifetime time.Duration) error {
	_, err := s.db.Exec(ctx, `WITH ended AS (DELETE FROM session WHERE id IN (
			SELECT id FROM session WHERE ends_at <= now() ORDER BY ends_at LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO session (id, sealed, ends_at) VALUES ($1, $2, now() + $3)`, id, sealed, lifetime)
	return err
}

// Get reads what Sessions.Insert recorded and how long it is still valid, or returns ErrNotFound.
func (s Sessions) Get(ctx context.Context, id []byte) (sealed []byte, left time.Duration, err error) {
	type row struct {
		Sealed []byte
		Left   time.Duration
	}
	found, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[row],
		"SELECT sealed, ends_at - now() FROM session WHERE id = $1 AND ends_at > now()", id)
	return found.Sealed, found.Left, err
}

// Delete deletes a session, if it exists.
func (s Sessions) Delete(ctx context.Context, id []byte) error {
	_, err := s.db.Exec(ctx, "DELETE FROM session WHERE id = $1", id)
	return err
}

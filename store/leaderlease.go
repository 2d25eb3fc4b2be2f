package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Leader records which broker does periodic work that one does at a time.
type Leader struct{ *database }

// Acquire makes owner the one broker that does some periodic work. If another broker does it, or the work is
// not due yet, acquired is false, and wait is how long to wait before the next call: while another broker does it, at
// most hold. The lease lasts for hold, and longer if Leader.Renew is called. If its owner dies, another broker can
// acquire it when it expires. If PostgreSQL's clock is set back, nobody waits for longer than hold, or than the pause
// of Leader.Release.
//
// The statement reads clock_timestamp(), after the row is locked. If a statement has to wait, the time of its beginning
// is older than what the previous one wrote, as if the clock had been set back.
// https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-CURRENT
func (s Leader) Acquire(ctx context.Context, name, owner string,
	hold time.Duration) (acquired bool, wait time.Duration, err error) {
	type result struct {
		Acquired bool
		Wait     time.Duration
	}
	r, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[result], `
		WITH taken AS (
			INSERT INTO leader_lease AS l (name, owner, until, began_at, pause)
			VALUES ($1, $2, clock_timestamp() + $3::interval, clock_timestamp(), '0')
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = clock_timestamp() + $3::interval,
				began_at = clock_timestamp(), pause = excluded.pause
			WHERE (l.until <= clock_timestamp() OR l.until > clock_timestamp() + $3::interval)
				AND (l.began_at + l.pause <= clock_timestamp() OR l.began_at > clock_timestamp())
			RETURNING name)
		SELECT EXISTS (SELECT FROM taken), coalesce((SELECT greatest('0'::interval, least(until - now(), $3::interval),
			least(began_at + pause - now(), pause)) FROM leader_lease WHERE name = $1), $3::interval)`, name, owner, hold)
	return r.Acquired, r.Wait, err
}

// Renew extends owner's lease to hold from now, or returns ErrLeaseLost.
func (s Leader) Renew(ctx context.Context, name, owner string, hold time.Duration) error {
	return s.change(ctx, "until = clock_timestamp() + $3::interval", name, owner, hold)
}

// Release ends owner's lease. The work is due again when both each has passed since the lease was acquired
// and rest has passed from now. With 0 for both, as for work that was interrupted, it is due at once.
func (s Leader) Release(ctx context.Context, name, owner string, each, rest time.Duration) error {
	return s.change(ctx, "until = now(), pause = greatest($3::interval, now() - began_at + $4::interval)",
		name, owner, each, rest)
}

func (s Leader) change(ctx context.Context, set, name, owner string, durations ...any) error {
	tag, err := s.db.Exec(ctx, "UPDATE leader_lease SET "+set+` WHERE name = $1 AND owner = $2
		AND until > clock_timestamp()`, append([]any{name, owner}, durations...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLeaseLost
	}
	return err
}

package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// TakeTurn lets one broker at a time do some work. If it is not owner's turn, it tells how long to wait before asking
// again, which is hold at most while another one has it. Whoever gets the turn has it for hold, and longer if it calls
// KeepTurn; if it dies, the turn is the next one's as soon as hold is over. Should PostgreSQL's clock be set back,
// nobody waits for longer than hold, or than the pause that EndTurn asked for.
//
// The clock is read once the row is locked: the time at which a statement began that had to wait is older than what the
// one before it wrote, as if the clock had been set back.
// https://www.postgresql.org/docs/current/functions-datetime.html#FUNCTIONS-DATETIME-CURRENT
func (s *Store) TakeTurn(ctx context.Context, name, owner string, hold time.Duration) (
	taken bool, wait time.Duration, err error) {
	type answer struct {
		Taken bool
		Wait  time.Duration
	}
	a, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[answer], `
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
	return a.Taken, a.Wait, err
}

// KeepTurn has owner keep its turn for hold from now, or returns ErrLeaseLost.
func (s *Store) KeepTurn(ctx context.Context, name, owner string, hold time.Duration) error {
	return s.changeTurn(ctx, "until = clock_timestamp() + $3::interval", name, owner, hold)
}

// EndTurn gives a turn back. The next one begins when each has passed since this one began, and rest from now, at the
// earliest; with 0 for both, as for work that was broken off, at once.
func (s *Store) EndTurn(ctx context.Context, name, owner string, each, rest time.Duration) error {
	return s.changeTurn(ctx, "until = now(), pause = greatest($3::interval, now() - began_at + $4::interval)", name, owner,
		each, rest)
}

func (s *Store) changeTurn(ctx context.Context, set, name, owner string, durations ...any) error {
	tag, err := s.db.Exec(ctx, "UPDATE leader_lease SET "+set+` WHERE name = $1 AND owner = $2
		AND until > clock_timestamp()`, append([]any{name, owner}, durations...)...)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLeaseLost
	}
	return err
}

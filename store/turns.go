package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// TakeTurn lets one broker at a time do some work, each so often at most. If it is not owner's turn, it tells how long to
// wait before asking again. Whoever gets the turn has it for hold, and longer if it calls KeepTurn. Should PostgreSQL's
// clock be set back, nobody waits for longer than hold.
func (s *Store) TakeTurn(ctx context.Context, name, owner string, each, hold time.Duration) (
	taken bool, wait time.Duration, err error) {
	type answer struct {
		Taken bool
		Wait  time.Duration
	}
	a, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[answer], `
		WITH taken AS (
			INSERT INTO turn (name, owner, until, began_at, pause)
			VALUES ($1, $2, now() + $4::interval, now(), $3::interval)
			ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until = excluded.until,
				began_at = excluded.began_at, pause = excluded.pause
			WHERE (turn.until <= now() OR turn.until > excluded.until)
				AND (turn.began_at + turn.pause <= now() OR turn.began_at > now())
			RETURNING name)
		SELECT EXISTS (SELECT FROM taken), coalesce((SELECT greatest('0'::interval, least(until - now(), $4::interval),
			least(began_at + pause - now(), pause)) FROM turn WHERE name = $1), $3::interval)`, name, owner, each, hold)
	return a.Taken, a.Wait, err
}

// KeepTurn has owner keep its turn for hold from now, or returns ErrLeaseLost.
func (s *Store) KeepTurn(ctx context.Context, name, owner string, hold time.Duration) error {
	return s.changeTurn(ctx, "until = now() + $3::interval", name, owner, hold)
}

// EndTurn gives a turn back. The next one comes after rest at the earliest.
func (s *Store) EndTurn(ctx context.Context, name, owner string, rest time.Duration) error {
	return s.changeTurn(ctx, "until = now(), pause = greatest(pause, now() - began_at + $3::interval)", name, owner, rest)
}

func (s *Store) changeTurn(ctx context.Context, set, name, owner string, d time.Duration) error {
	tag, err := s.db.Exec(ctx, "UPDATE turn SET "+set+" WHERE name = $1 AND owner = $2 AND until > now()", name, owner, d)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrLeaseLost
	}
	return err
}

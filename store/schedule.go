package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Schedule says when brokers record tasks of a kind by themselves. They are tasks of no instance.
type Schedule struct {
	Every time.Duration // from one task to the next, and before the first; 0 for never
	At    time.Duration // if not 0, the time of day in UTC at which tasks are recorded; Every is whole days then
}

// nextTask is the SQL for when a schedule's next task is due, after the one that is recorded now.
const nextTask = `CASE WHEN $3::interval = '0' THEN now() + $2::interval
	ELSE (date_trunc('day', (now() - $3::interval) AT TIME ZONE 'UTC') + $2::interval + $3::interval)
		AT TIME ZONE 'UTC' END`

// asked is the time of the next task that MakeDue has asked for.
const asked = `'-infinity'::timestamptz`

// RecordScheduled records a task of that kind and returns it if one is due, otherwise it returns ErrNotFound. If
// several brokers call it at the same time, one of them records the task. While the previous task is in progress, none
// is recorded: that one takes its place, but not that of a task that MakeDue has asked for. During a Hold, the task
// waits.
func (s Tasks) RecordScheduled(ctx context.Context, kind string, by Schedule) (Task, error) {
	// A time that is too far ahead was recorded by a release that waits longer, or before the clock was set back.
	if err := s.exec(ctx, `INSERT INTO schedule (kind, next_at) VALUES ($1, `+nextTask+`)
		ON CONFLICT (kind) DO UPDATE SET next_at = excluded.next_at WHERE schedule.next_at > excluded.next_at`,
		kind, by.Every, by.At); err != nil {
		return Task{}, err
	}
	return oneRow(ctx, s.pool, scanTask, `WITH due AS (
			UPDATE schedule SET next_at = `+nextTask+` WHERE kind = $1 AND next_at <= now() AND NOT `+isHeld+`
				AND (next_at > `+asked+` OR NOT EXISTS (
					SELECT FROM task WHERE instance_id = '' AND kind = $1 AND state = 'in progress'))
			RETURNING kind)
		INSERT INTO task (instance_id, kind, plan_id) SELECT '', kind, '' FROM due ON CONFLICT DO NOTHING
		RETURNING `+taskColumns, kind, by.Every, by.At)
}

// ScheduleWaits returns how long it is, by kind, until the next task of each recorded schedule is due, 0 for those that
// are.
func (s Tasks) ScheduleWaits(ctx context.Context) (map[string]time.Duration, error) {
	return named[time.Duration](ctx, s.pool,
		"SELECT kind, CASE WHEN next_at > now() THEN next_at - now() ELSE '0' END FROM schedule")
}

// MakeDue makes the next RecordScheduled record a task of a scheduled kind. If one is in progress, which may not see
// what it is asked for, the next one is recorded once that has ended.
func (s Tasks) MakeDue(ctx context.Context, kind string) error {
	return s.exec(ctx, "UPDATE schedule SET next_at = "+asked+" WHERE kind = $1", kind)
}

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
	return s.set(ctx, "until = clock_timestamp() + $3::interval", name, owner, hold)
}

// Release ends owner's lease. The work is due again when both each has passed since the lease was acquired
// and rest has passed from now. With 0 for both, as for work that was interrupted, it is due at once.
func (s Leader) Release(ctx context.Context, name, owner string, each, rest time.Duration) error {
	return s.set(ctx, "until = now(), pause = greatest($3::interval, now() - began_at + $4::interval)",
		name, owner, each, rest)
}

func (s Leader) set(ctx context.Context, columns, name, owner string, durations ...any) error {
	return s.change(ctx, ErrLeaseLost, "UPDATE leader_lease SET "+columns+` WHERE name = $1 AND owner = $2
		AND until > clock_timestamp()`, append([]any{name, owner}, durations...)...)
}

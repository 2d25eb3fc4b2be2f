package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrHeld is in the chain of the error of whatever is refused during a Hold.
var ErrHeld = errors.New("PostgreSQL is older than the servers and held; see `mysql-broker recover`")

// Hold says that PostgreSQL was restored from a backup and is older than the servers. Until Resume, tasks that do more
// than add are not recorded, and no task is claimed. Brokers check for a hold in the same transaction.
type Hold struct {
	Since  time.Time `json:"since"`
	Reason string    `json:"reason"` // a sentence without secrets, for anybody
}

// Mark is the position of this PostgreSQL: its latest task, and when that was recorded, which distinguishes it from a
// task that gets the same id after PostgreSQL was restored.
type Mark struct {
	Identity string // of this PostgreSQL: it never changes, and a restored copy has it too
	TaskID   int64  // 0 before the first task
	TaskAt   time.Time
	Hold     *Hold // nil without one

	recorded bool // the hold is recorded, and not only derived from the row
}

// isHeld is the SQL for whether there is a Hold. A row whose xmin differs from written_by was loaded from a dump.
const isHeld = "EXISTS (SELECT FROM mark WHERE held_since IS NOT NULL OR xmin <> written_by)"

// restoredReason is the reason of a hold that is derived from the row.
const restoredReason = "PostgreSQL was loaded from a dump, and may be older than what the servers hold."

// selectMark also reads whether the row was loaded from a dump: see the table mark.
const selectMark = `SELECT identity, coalesce(t.id, 0), coalesce(t.created_at, '1970-01-01 UTC'),
		mark.xmin <> written_by, held_since, held_reason, now()
	FROM mark LEFT JOIN (SELECT id, created_at FROM task ORDER BY id DESC LIMIT 1) t ON true`

func scanMark(row pgx.CollectableRow) (m Mark, err error) {
	var copied bool
	var since *time.Time
	var reason string
	var now time.Time
	if err := row.Scan(&m.Identity, &m.TaskID, &m.TaskAt, &copied, &since, &reason, &now); err != nil {
		return m, err
	}
	switch {
	case since != nil:
		m.Hold, m.recorded = &Hold{Since: *since, Reason: reason}, true
	case copied:
		m.Hold = &Hold{Since: now, Reason: restoredReason}
	}
	return m, nil
}

// Mark reads the position of this PostgreSQL, and whether it is held.
func (s Recovery) Mark(ctx context.Context) (Mark, error) {
	return oneRow(ctx, s.pool, scanMark, selectMark)
}

// Hold reads the hold, nil without one.
func (s Recovery) Hold(ctx context.Context) (*Hold, error) {
	m, err := s.Mark(ctx)
	return m.Hold, err
}

// Held returns ErrHeld during a Hold.
func (s Recovery) Held(ctx context.Context) error {
	hold, err := s.Hold(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read whether PostgreSQL is held: %w", err)
	case hold != nil:
		return ErrHeld
	}
	return nil
}

// Knows reports whether this PostgreSQL recorded the task of that id at that time. About tasks that are older than
// lossAge it only knows whether the id was ever used.
func (s Tasks) Knows(ctx context.Context, id int64, at time.Time) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], knowsTask, id, at, lossAge)
}

const knowsTask = `SELECT coalesce((SELECT created_at = $2 FROM task WHERE id = $1),
	$2 < now() - $3::interval AND $1 <= (SELECT last_value FROM task_id_seq))`

// taskReserve is far more than the number of tasks that can have been recorded since a mark was written.
const taskReserve = 1_000_000

// SetHold holds this PostgreSQL, unless it is held already. New tasks get ids above known, the latest that servers have
// recorded, and above all that may have been used since: a platform that asks about an old task must never read of
// another one.
func (s Recovery) SetHold(ctx context.Context, reason string, known int64) error {
	return s.inTx(ctx, func(tx *Tx) error {
		tx.write("hold", setHold, reason)
		tx.skipTasks(known)
		return nil
	})
}

const setHold = `UPDATE mark SET held_since = coalesce(held_since, now()),
	held_reason = CASE WHEN held_since IS NULL THEN $1 ELSE held_reason END, written_by = pg_current_xact_id()::xid`

const skipTasks = "SELECT setval('task_id_seq', greatest(last_value, $1::bigint) + $2::bigint) FROM task_id_seq"

func (t *Tx) skipTasks(known int64) {
	t.write("skip the tasks that were given out", skipTasks, known, taskReserve)
}

// HoldRestored records a hold if PostgreSQL was loaded from a dump and has none yet. It returns the hold, whatever its
// reason, or nil.
func (s Recovery) HoldRestored(ctx context.Context) (*Hold, error) {
	m, err := s.Mark(ctx)
	if err != nil || m.Hold == nil || m.recorded {
		return m.Hold, err
	}
	if err := s.SetHold(ctx, m.Hold.Reason, m.TaskID); err != nil {
		return nil, err
	}
	return s.Hold(ctx)
}

// Resume ends a hold. New tasks get ids above known, as after SetHold.
func (s Recovery) Resume(ctx context.Context, known int64) error {
	return s.inTx(ctx, func(tx *Tx) error {
		tx.skipTasks(known)
		tx.write("end the hold", `UPDATE mark SET held_since = NULL, held_reason = '',
			written_by = pg_current_xact_id()::xid`)
		tx.write("wake the brokers", "SELECT pg_notify($1, '')", channel)
		tx.write("check the credentials in CredHub",
			"UPDATE credhub_entry SET stored = NULL, checked_at = '-infinity' WHERE ended_at IS NULL")
		// An instance may have got retained data after the last copy of its record was made. The operator has to look.
		tx.write("keep retained data for a day", "UPDATE retained SET until = greatest(until, now() + interval '1 day')")
		return nil
	})
}

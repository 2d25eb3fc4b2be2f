package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// ErrHeld is in the chain of the error of whatever must not be done because PostgreSQL was restored from a backup and
// knows less than the servers do: see Hold.
var ErrHeld = errors.New("PostgreSQL is older than the servers and held; see `mysql-broker recover`")

// Hold says that PostgreSQL is older than what the servers hold. From then on tasks other than binds are not recorded,
// and no task is claimed, until Resume: brokers read in the same transaction whether there is one, so that all agree.
type Hold struct {
	Since  time.Time
	Reason string // a sentence without secrets, for anybody
}

// Mark is how far this PostgreSQL has come: its latest task, and when that was recorded, which tells it apart from one
// that gets the same id once PostgreSQL was restored.
type Mark struct {
	Identity string // of this PostgreSQL: never changes, and is restored with it
	TaskID   int64  // 0 before the first task
	TaskAt   time.Time
	Hold     *Hold // nil unless it is held

	recorded bool // the hold is, and not only seen
}

// isHeld is the SQL for whether there is a Hold. A row that its transaction did not write was loaded from a dump.
const isHeld = "EXISTS (SELECT FROM mark WHERE held_since IS NOT NULL OR xmin <> written_by)"

// restoredReason is why a PostgreSQL is held that was loaded from a dump, as its row itself shows.
const restoredReason = "PostgreSQL was loaded from a dump, and may be older than what the servers hold."

// selectMark reads whether the row is a copy, too: see the table mark.
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

// Mark reads how far this PostgreSQL has come, and whether it is held.
func (s *Store) Mark(ctx context.Context) (Mark, error) {
	m, err := oneRow(ctx, s.pool, scanMark, selectMark)
	return m, explainOldSchema(err)
}

// Hold is that of Mark.
func (s *Store) Hold(ctx context.Context) (*Hold, error) {
	m, err := s.Mark(ctx)
	return m.Hold, err
}

// KnowsTask tells whether this PostgreSQL recorded the task of that id at that time, as far as it can know: those that
// ended are deleted some time, not before keep.
func (s *Store) KnowsTask(ctx context.Context, id int64, at time.Time, keep time.Duration) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], `SELECT coalesce((SELECT created_at = $2 FROM task WHERE id = $1),
		$2 < now() - $3::interval AND $1 <= (SELECT last_value FROM task_id_seq))`, id, at, keep)
}

// taskReserve is how many tasks may have been given out since a mark was written, and far more.
const taskReserve = 1_000_000

// SetHold holds this PostgreSQL, unless it is already, and has the tasks to come follow after all that the servers were
// told of, up to known, or that may have been given out since: a platform that asks about an old one must never be
// told of another.
func (s *Store) SetHold(ctx context.Context, reason string, known int64) error {
	return s.InTx(ctx, func(tx *Tx) error {
		tx.write("hold", `UPDATE mark SET held_since = coalesce(held_since, now()),
				held_reason = CASE WHEN held_since IS NULL THEN $1 ELSE held_reason END,
				written_by = pg_current_xact_id()::xid`, reason)
		tx.skipTasks(known)
		return nil
	})
}

func (t *Tx) skipTasks(known int64) {
	t.write("skip the tasks that were given out",
		"SELECT setval('task_id_seq', greatest(last_value, $1::bigint) + $2::bigint) FROM task_id_seq", known, taskReserve)
}

// HoldRestored is SetHold for a PostgreSQL that was loaded from a dump and is not held yet. It returns the hold, for
// whatever reason there is one, or nil.
func (s *Store) HoldRestored(ctx context.Context) (*Hold, error) {
	m, err := s.Mark(ctx)
	if err != nil || m.Hold == nil || m.recorded {
		return m.Hold, err
	}
	if err := s.SetHold(ctx, m.Hold.Reason, m.TaskID); err != nil {
		return nil, err
	}
	return s.Hold(ctx)
}

// Resume ends a hold. The tasks to come follow after known, as with SetHold.
func (s *Store) Resume(ctx context.Context, known int64) error {
	return s.InTx(ctx, func(tx *Tx) error {
		tx.skipTasks(known)
		tx.write("end the hold", `UPDATE mark SET held_since = NULL, held_reason = '',
			written_by = pg_current_xact_id()::xid`)
		return nil
	})
}

package store

import "context"

// Undoable are the kinds of tasks that have a cleanup phase. What the others remove does not come back.
var Undoable = []string{Provision, Update, Bind}

// TurnBack gives up a task in progress in its worker's stead: that one can write no more, and the task is in its
// cleanup phase. The worker's lease stays until its time runs out, so that whoever undoes the work begins only when the
// worker has learned of it. It returns ErrNotFound and changes nothing if the task has ended, is being undone already,
// or is not of a kind that can be undone.
func (s *Store) TurnBack(ctx context.Context, id int64, description, lastError string) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, `UPDATE task SET phase = 'cleanup', step = '', attempt = 0, description = $2,
			last_error = $3, epoch = epoch + 1, run_at = least(run_at, now())
		WHERE id = $1 AND `+notEnded+` AND phase = 'forward' AND kind = ANY ($4)
		RETURNING `+taskColumns, id, description, lastError, Undoable)
}

// Hasten makes a task that waits, for its next attempt perhaps, due at once, with all attempts before it again. It
// returns ErrNotFound and changes nothing if the task has ended or a worker is at it.
func (s *Store) Hasten(ctx context.Context, id int64) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, `UPDATE task SET run_at = least(run_at, now()), attempt = 0
		WHERE id = $1 AND `+notEnded+` AND (lease_until IS NULL OR lease_until <= clock_timestamp())
		RETURNING `+taskColumns, id)
}

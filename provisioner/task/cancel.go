package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/store"
)

// cancelled is the LastError of a task that Cancel turned back.
const cancelled = "cancelled by an operator"

// Cancel gives up a task in progress as a worker does whose step failed for good: what was done is undone, and only
// then does the task end, as failed. Platforms that poll read "in progress" until then, with the reason, and whoever
// waits for the task in a request is told it. A worker that is at it stops within a quarter of its lease, and another
// one, or the same, begins to undo when that lease has run out. A task that is being undone already stays as it is. The
// error says why a task cannot be cancelled, or is store.ErrNotFound. advice is what users can do then, by kind of
// task.
func Cancel(ctx context.Context, s *store.Store, id int64, advice map[string]string) (store.Task, error) {
	t, err := s.Task(ctx, id)
	if err != nil {
		return t, err
	}
	turned, err := s.Abort(ctx, id, strings.TrimSpace("Cancelled by an operator. "+advice[t.Kind]), cancelled)
	if !errors.Is(err, store.ErrNotFound) {
		return turned, err
	}
	if t, err = s.Task(ctx, id); err != nil {
		return t, err
	}
	switch {
	case t.State != store.InProgress:
		return t, fmt.Errorf("%s has %s already", Token(id), t.State)
	case !slices.Contains(store.Undoable, t.Kind):
		return t, fmt.Errorf("%s deletes, which cannot be undone: it goes on until it succeeds or has failed too often; "+
			"`mysql-broker tasks retry %[1]s` has it tried at once", Token(id))
	}
	return t, nil // being undone
}

package task

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mysql-broker/store"
)

// cancelled is the LastError of a task that Cancel turned back.
const cancelled = "cancelled by an operator"

// Cancel gives up a task in progress as a worker does whose step failed for good: what was done is undone, and only
// then does the task end, as failed. Platforms that poll read "in progress" until then, with the reason, and whoever
// waits for the task in a request is told it. A worker that is at it stops within a quarter of its lease, and another
// one, or the same, begins to undo when that lease has run out. A task that is being undone already stays as it is. The
// error says why a task cannot be cancelled, or is store.ErrNotFound. kinds may lack their workflows.
func Cancel(ctx context.Context, s *store.Store, id int64, kinds map[string]Kind) (store.Task, error) {
	t, err := s.Task(ctx, id)
	if err != nil {
		return t, err
	}
	kind := kinds[t.Kind]
	if kind.Undoable {
		description := strings.TrimSpace("Cancelled by an operator. " + kind.Advice)
		if aborted, err := s.Abort(ctx, id, description, cancelled); !errors.Is(err, store.ErrNotFound) {
			return aborted, err
		}
	}
	if t, err = s.Task(ctx, id); err != nil {
		return t, err
	}
	switch {
	case t.State != store.InProgress:
		return t, fmt.Errorf("%s has %s already", Token(id), t.State)
	case !kind.Undoable:
		return t, fmt.Errorf("%s deletes, which cannot be undone: it goes on until it succeeds or has failed too often; "+
			"`mysql-broker tasks retry %[1]s` has it tried at once", Token(id))
	}
	return t, nil // being undone
}

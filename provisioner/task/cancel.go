package task

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"mysql-broker/store"
)

// cancelled is the LastError of a task that Cancel aborted.
const cancelled = "cancelled by an operator"

// Cancel aborts a task in progress: its steps are undone, and then the task fails. Until then, platforms read "in
// progress" with the reason; a request that waits for the task gets the reason as well. A worker that runs the task
// stops within a quarter of its lease, and releases it. Then, or when the lease has expired, a worker begins the
// cleanup. A task in its cleanup stays as it is. The error says why a task cannot be cancelled, or is
// store.ErrNotFound. kinds need no workflows.
func Cancel(ctx context.Context, s *store.Store, id int64, kinds map[string]Kind) (store.Task, error) {
	t, err := s.Tasks.Get(ctx, id)
	if err != nil {
		return t, err
	}
	kind := kinds[t.Kind]
	if kind.Undoable {
		description := strings.TrimSpace("Cancelled by an operator. " + kind.advice(t))
		if aborted, err := s.Tasks.Abort(ctx, id, description, cancelled); !errors.Is(err, store.ErrNotFound) {
			return aborted, err
		}
	}
	if t, err = s.Tasks.Get(ctx, id); err != nil {
		return t, err
	}
	switch {
	case t.State != store.InProgress:
		return t, fmt.Errorf("%s has %s already", Token(id), t.State)
	case !kind.Undoable:
		return t, fmt.Errorf("%s (%s) cannot be undone: it is retried until it succeeds or has failed too often; "+
			"`mysql-broker tasks retry %[1]s` retries it now", Token(id), t.Kind)
	}
	return t, nil // being undone
}

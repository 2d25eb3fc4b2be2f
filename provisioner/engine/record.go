package engine

import (
	"context"

	"mysql-broker/store"
)

// NotNowError says why nothing can begin on an instance now.
type NotNowError string

func (e NotNowError) Error() string { return string(e) }

// Reasons why nothing can begin on an instance.
const (
	NotReady   NotNowError = "it is not ready"
	InProgress NotNowError = "another operation on it is in progress"
	Mixture    NotNowError = "a restore of it failed, and its data may be a mixture: restore one of its backups first"
)

// Beside is what may be so on an instance when an operation begins.
type Beside struct {
	Bindings bool // operations on its bindings are in progress
	Mixture  bool // its data may be a mixture, because a restore failed
}

// refuses says why an operation cannot begin, "" if it can.
func (b Beside) refuses(there store.Beginning) NotNowError {
	switch {
	case there.Task("") != nil || len(there.Active) > 0 && !b.Bindings:
		return InProgress
	case there.Instance.State != store.Ready:
		return NotReady
	case there.Instance.FrozenSince != nil && !b.Mixture:
		return Mixture
	}
	return ""
}

// Refusal refuses the request of a platform for an operation that cannot begin now. It is nil if the operation can.
func (b Beside) Refusal(there store.Beginning) error {
	return map[NotNowError]error{NotReady: ErrNotReady, InProgress: ErrBusy, Mixture: ErrFrozen}[b.refuses(there)]
}

// Record records a task on an instance for any broker, as an operator or a schedule asks for. fn returns the task of
// the instance, which is ready, and locked in the transaction. The error is store.ErrNotFound if there is no such
// instance, or a NotNowError.
func Record(ctx context.Context, s *store.Store, id string, beside Beside,
	fn func(*store.Tx, store.Instance) (store.NewTask, error)) (store.Task, error) {
	var recorded *store.Task
	err := s.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, id, "")
		if err != nil {
			return err
		}
		if why := beside.refuses(there); why != "" {
			return why
		}
		n, err := fn(tx, there.Instance)
		if err != nil {
			return err
		}
		recorded = tx.InsertTask(n)
		return nil
	})
	if err != nil {
		return store.Task{}, err
	}
	return *recorded, nil
}

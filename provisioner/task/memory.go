package task

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"
)

// Memory is what the steps of a task remembered, by name. A later attempt, in whatever process, reads what an earlier
// one wrote.
type Memory map[string]json.RawMessage

// Key is the name of a thing that steps remember, unique in the workflow, and its type. It is stored as JSON at the
// latest with the next change that is recorded of the task: that the step is done, failed or is pending. Never remember
// a secret: values are not encrypted.
type Key[T any] string

// In returns what a memory has under the key. found is false, and value zero, if it has nothing.
func (k Key[T]) In(m Memory) (value T, found bool, err error) {
	raw, found := m[string(k)]
	if !found {
		return value, false, nil
	}
	if err := json.Unmarshal(raw, &value); err != nil {
		return value, false, fmt.Errorf("decode what the task remembered as %q: %w", k, err)
	}
	return value, true, nil
}

// Recall is In for what a step of the task has remembered, in this attempt or an earlier one.
func (k Key[T]) Recall(r *Run) (value T, found bool, err error) { return k.In(r.execution.task.Memory) }

// Remember sets the value.
func (k Key[T]) Remember(r *Run, value T) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode what the task is to remember as %q: %w", k, err)
	}
	r.changeMemory(func(m Memory) { m[string(k)] = raw })
	return nil
}

// Save is Remember for a value that must not be lost if the process dies: it is stored at once. Save returns
// store.ErrLeaseLost if another worker may have the task.
func (k Key[T]) Save(ctx context.Context, r *Run, value T) error {
	if err := k.Remember(r, value); err != nil {
		return err
	}
	return r.execution.save(ctx)
}

// Forget makes the task remember nothing under the key any more. That is stored as what Remember sets.
func (k Key[T]) Forget(r *Run) {
	if _, there := r.execution.task.Memory[string(k)]; there {
		r.changeMemory(func(m Memory) { delete(m, string(k)) })
	}
}

// Now is the time by PostgreSQL's clock: the hosts of the brokers that work on a task may have others.
func (r *Run) Now() time.Time { return r.execution.now() }

// Since returns how long ago it was first called with that key, in this attempt or an earlier one, and since it was
// forgotten.
func Since(r *Run, k Key[time.Time]) (time.Duration, error) {
	now := r.Now()
	first, found, err := k.Recall(r)
	if err == nil && !found {
		first = now
		err = k.Remember(r, first)
	}
	return now.Sub(first), err
}

// changeMemory changes a copy: the attempt's Run.Task keeps its initial memory.
func (r *Run) changeMemory(change func(Memory)) {
	x := r.execution
	next := maps.Clone(x.task.Memory)
	if next == nil {
		next = map[string]json.RawMessage{}
	}
	change(next)
	x.task.Memory, x.unsaved = next, true
}

// write stores what was remembered, and then what fn records of the task.
func (x *execution) write(ctx context.Context, fn func() error) error {
	if err := x.save(ctx); err != nil {
		return err
	}
	return fn()
}

func (x *execution) save(ctx context.Context) error {
	if !x.unsaved {
		return nil
	}
	if err := x.runner.store.Queue.Remember(ctx, x.lease.held, x.task.Memory); err != nil {
		return fmt.Errorf("store what the task remembers: %w", err)
	}
	x.unsaved = false
	return nil
}

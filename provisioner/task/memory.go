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

// Recall decodes what was remembered under name into value. found is false, and value unchanged, if nothing was.
func (m Memory) Recall(name string, value any) (found bool, err error) {
	raw, found := m[name]
	if !found {
		return false, nil
	}
	if err := json.Unmarshal(raw, value); err != nil {
		return false, fmt.Errorf("decode what the task remembered as %q: %w", name, err)
	}
	return true, nil
}

// Recall reads what a step of the task remembered under name, in this attempt or an earlier one: see Memory.Recall.
func (r *Run) Recall(name string, value any) (found bool, err error) {
	return Memory(r.execution.task.Memory).Recall(name, value)
}

// Remember sets the value of a name that is unique in the workflow. It is stored as JSON at the latest with the next
// change that is recorded of the task: that the step is done, failed or is pending. A step that must not lose the value
// if the process dies calls Save. Never remember a secret: values are not encrypted.
func (r *Run) Remember(name string, value any) error {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode what the task is to remember as %q: %w", name, err)
	}
	x := r.execution
	x.task.Memory = maps.Clone(x.task.Memory) // the attempt's Run.Task keeps its initial memory
	if x.task.Memory == nil {
		x.task.Memory = map[string]json.RawMessage{}
	}
	x.task.Memory[name] = raw
	x.unsaved = true
	return nil
}

// Since returns how long ago it was first called with that name, in this attempt or an earlier one. The name is
// remembered: see Remember.
func (r *Run) Since(name string) (time.Duration, error) {
	first := time.Now()
	found, err := r.Recall(name, &first)
	if err == nil && !found {
		err = r.Remember(name, first)
	}
	return time.Since(first), err
}

// Forget makes the task remember nothing under name any more, so that Since begins again. That is stored as what
// Remember sets.
func (r *Run) Forget(name string) {
	x := r.execution
	if _, there := x.task.Memory[name]; !there {
		return
	}
	x.task.Memory = maps.Clone(x.task.Memory) // the attempt's Run.Task keeps its initial memory
	delete(x.task.Memory, name)
	x.unsaved = true
}

// Save stores what was remembered. It returns store.ErrLeaseLost if another worker may have the task.
func (r *Run) Save(ctx context.Context) error { return r.execution.save(ctx) }

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

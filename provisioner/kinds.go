package provisioner

import (
	"context"
	"encoding/json"
	"fmt"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// kinds are the kinds of tasks, each of which is defined beside its operation.
var kinds = map[string]kind{
	store.Provision:   provisionKind,
	store.Update:      updateKind,
	store.Deprovision: deprovisionKind,
	store.Bind:        bindKind,
	store.Unbind:      unbindKind,
	store.Expire:      expireKind,
	store.Rotate:      rotateKind,
	RemoveOldTasks:    removeOldTasksKind,
	PurgeRetained:     purgeRetainedKind,
	RemoveFormer:      removeFormerKind,
	store.BackUp:      backUpKind,
	store.Restore:     restoreKind,
	BackUpDue:         backUpDueKind,
	VerifyBackups:     verifyBackupsKind,
	PurgeBackups:      purgeBackupsKind,
}

// kind is what all tasks of one kind have in common.
type kind struct {
	task.Kind        // without its workflow
	beginning string // what users read until the first step begins, or while a request waits for the task

	// workflow finds the workflow of a task that was recorded earlier, maybe by another process. Steps that need the
	// plan look it up themselves: if it is not in the catalog, they wait for a broker that knows it, and the cleanup runs
	// without it.
	workflow func(ctx context.Context, p *Provisioner, t store.Task) (task.Workflow, error)
}

// taskKinds returns the kinds as the task runner wants them.
func (p *Provisioner) taskKinds() map[string]task.Kind {
	all := TaskKinds()
	for name, known := range all {
		workflow := kinds[name].workflow
		known.Workflow = func(ctx context.Context, t store.Task) (task.Workflow, error) { return workflow(ctx, p, t) }
		all[name] = known
	}
	return all
}

// TaskKinds returns the kinds of tasks by name, without their workflows.
func TaskKinds() map[string]task.Kind {
	all := make(map[string]task.Kind, len(kinds))
	for name, k := range kinds {
		all[name] = k.Kind
	}
	return all
}

// CancelTask is task.Cancel for these kinds of tasks.
func CancelTask(ctx context.Context, s *store.Store, id int64) (store.Task, error) {
	return task.Cancel(ctx, s, id, TaskKinds())
}

// request is what a task records of its request beyond what the row of its instance or binding has.
type request struct {
	Async              bool   `json:"later,omitempty"`               // the response did not wait for the task
	PlanID             string `json:"plan_id,omitempty"`             // of an update: the new plan
	MaintenanceVersion string `json:"maintenance_version,omitempty"` // of an update
	// Version is what an update upgrades the server to; "" if it does not.
	Version string `json:"version,omitempty"`
	// Moves says of an update that the data are moved to where store.Instance.Other says.
	Moves bool `json:"moves,omitempty"`
	// KeepDeletedDays is what an update asks for.
	KeepDeletedDays plan.Days `json:"keep_deleted_days,omitzero"`
	// BackupID is the backup that a task writes, or from which a provision fills the database.
	BackupID string `json:"backup,omitempty"`
	// RestoreID is the backup that a task restores in place. BackupID is then that of what was there before.
	RestoreID string `json:"restore_backup,omitempty"`
	// Lost says of a restore in place that the server has lost the database and the accounts, or was lost itself.
	Lost bool `json:"lost,omitempty"`
	// RetainDays is for how long a deprovision keeps the data; 0 if it drops them.
	RetainDays int `json:"retain_days,omitempty"`
	// GivesBack says of a deprovision that the instance was to get retained data, which stay.
	GivesBack bool `json:"gives_back,omitempty"`
}

func (r request) json() json.RawMessage { return encode(r) }

// encode returns v, a struct of strings, numbers and booleans, as JSON.
func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // cannot fail for such a struct
	return raw
}

// instanceTask reads the instance and the request of a task.
func (p *Provisioner) instanceTask(ctx context.Context, t store.Task) (i store.Instance, r request, err error) {
	if i, err = p.store.Instance(ctx, t.InstanceID); err != nil {
		return i, r, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
	}
	return i, r, decodeRequest(t, &r)
}

func decodeRequest(t store.Task, r *request) error {
	if err := json.Unmarshal(t.Request, r); err != nil {
		return fmt.Errorf("read the request of %s: %w", task.Token(t.ID), err)
	}
	return nil
}

// bindingTask reads the instance and the binding of a task.
func (p *Provisioner) bindingTask(ctx context.Context, t store.Task) (i store.Instance, b store.Binding, err error) {
	if i, err = p.store.Instance(ctx, t.InstanceID); err != nil {
		return i, b, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
	}
	if b, err = p.store.Binding(ctx, t.InstanceID, t.BindingID); err != nil {
		return i, b, fmt.Errorf("read the binding of %s: %w", task.Token(t.ID), err)
	}
	return i, b, nil
}

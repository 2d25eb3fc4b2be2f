package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// ProvisionRequest asks for an instance.
type ProvisionRequest struct {
	InstanceID        string
	Plan              plan.Plan
	OrganizationGUID  string
	SpaceGUID         string
	Context           json.RawMessage
	Parameters        plan.InstanceParameters
	AcceptsIncomplete bool

	Received time.Time   // when the broker began to process the request; zero: now
	Left     func() bool // reports whether the client has left; nil if that is not known

	// ReportedAbsent is when the instance was last reported absent to the platform, before this request.
	ReportedAbsent *time.Time
}

// UpdateRequest asks for another plan, or for the maintenance version that the catalog has for the plan.
type UpdateRequest struct {
	InstanceID        string
	ServiceID         string
	Plan              plan.Plan // the instance's present plan, or another
	Parameters        plan.UpdateParameters
	Upgrade           bool // set the plan's maintenance version, as a change of plan also does
	AcceptsIncomplete bool
	Context           json.RawMessage // has the instance's present name, if the platform sends it
}

// ParametersOf decodes the parameters of an instance; the broker has encoded them.
func ParametersOf(i store.Instance) (q plan.InstanceParameters) {
	_ = json.Unmarshal(i.Parameters, &q)
	return q
}

// Request is what a task records of its request beyond what the row of its instance or binding has.
type Request struct {
	Async              bool   `json:"later,omitempty"`               // the response did not wait for the task
	PlanID             string `json:"plan_id,omitempty"`             // of an update: the new plan
	MaintenanceVersion string `json:"maintenance_version,omitempty"` // of an update
	// Version is what an update upgrades the server to; "" if it does not.
	Version string `json:"version,omitempty"`
	// Moves says of an update that the data is moved to where store.Instance.Other says.
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
	// Interrupts says of a deprovision that it has cancelled another task of the instance, which may have left something.
	Interrupts bool `json:"interrupts,omitempty"`
}

// JSON is what is recorded of the request.
func (r Request) JSON() json.RawMessage { return Encode(r) }

// Encode returns v, a struct of strings, numbers and booleans, as JSON.
func Encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // cannot fail for such a struct
	return raw
}

// OfInstance is the Workflow of a Kind whose tasks are about an instance. Maker has the method of an Engine.
func OfInstance[Maker interface {
	InstanceTask(context.Context, store.Task) (store.Instance, Request, error)
}](workflow func(Maker, store.Instance, Request) task.Workflow) func(context.Context, Maker, store.Task) (task.Workflow,
	error) {
	return func(ctx context.Context, maker Maker, t store.Task) (task.Workflow, error) {
		i, r, err := maker.InstanceTask(ctx, t)
		if err != nil {
			return task.Workflow{}, err
		}
		return workflow(maker, i, r), nil
	}
}

// InstanceTask reads the instance and the request of a task.
func (e *Engine) InstanceTask(ctx context.Context, t store.Task) (i store.Instance, r Request, err error) {
	if i, err = e.Store.Instances.Get(ctx, t.InstanceID); err != nil {
		return i, r, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
	}
	return i, r, DecodeRequest(t, &r)
}

// DecodeRequest reads what a task records of its request.
func DecodeRequest(t store.Task, r *Request) error {
	if err := json.Unmarshal(t.Request, r); err != nil {
		return fmt.Errorf("read the request of %s: %w", task.Token(t.ID), err)
	}
	return nil
}

// BindingTask reads the instance and the binding of a task.
func (e *Engine) BindingTask(ctx context.Context, t store.Task) (i store.Instance, b store.Binding, err error) {
	if i, err = e.Store.Instances.Get(ctx, t.InstanceID); err != nil {
		return i, b, fmt.Errorf("read the instance of %s: %w", task.Token(t.ID), err)
	}
	if b, err = e.Store.Bindings.Get(ctx, t.InstanceID, t.BindingID); err != nil {
		return i, b, fmt.Errorf("read the binding of %s: %w", task.Token(t.ID), err)
	}
	return i, b, nil
}

package provisioner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// UpdateRequest asks for another plan, or for the maintenance version that the catalog has for the plan.
type UpdateRequest struct {
	InstanceID        string
	ServiceID         string
	Plan              plan.Plan // the one that it has, or another
	Upgrade           bool      // bring the instance to the plan's maintenance version, as a change of plan does too
	AcceptsIncomplete bool
}

// Update changes an instance's plan. A request that asks for what there is succeeds at once. OSB API, "Updating a
// Service Instance".
func (p *Provisioner) Update(ctx context.Context, q UpdateRequest) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	i, err := p.instance(ctx, q.InstanceID)
	if err != nil {
		return Result{}, err
	}
	if i.ServiceID != q.ServiceID {
		return Result{}, refuse(Invalid, "The service_id is not that of this service instance.")
	}
	from, to := p.planOf(i), q.Plan
	async, err := answersAsync(to, q.AcceptsIncomplete)
	if err != nil {
		return Result{}, err
	}
	if from.Kind != to.Kind {
		return Result{}, refuse(PlanChangeRefused, "A %s plan cannot be changed to a %s one. "+
			"Create a service instance of plan %s and copy the data.", from.Kind, to.Kind, to.Name)
	}
	if l, err := p.fleet.Launcher(to.Launcher); to.Kind == plan.Dedicated && err == nil && l.Name != i.Location.Launcher {
		return Result{}, refuse(PlanChangeRefused, "Plan %s has its servers elsewhere, and data are not moved there. "+
			"Create a service instance of plan %s and copy the data.", to.Name, to.Name)
	}
	r := request{Async: async, PlanID: to.ID, MaintenanceVersion: i.MaintenanceVersion}
	if q.Upgrade || to.ID != from.ID {
		r.MaintenanceVersion = to.MaintenanceVersion
	}
	idle, err := p.idle(ctx, i)
	if err != nil {
		return Result{}, err
	}
	if idle { // a server that is being changed may not answer how much data it holds
		if err := p.fits(ctx, i, from, to); err != nil {
			return Result{}, err
		}
	}
	for {
		if a, err := p.recordUpdate(ctx, i.ID, to, r); !errors.Is(err, errUndone) {
			return a, err
		}
	}
}

// idle tells whether the instance is ready and nothing is in progress on it.
func (p *Provisioner) idle(ctx context.Context, i store.Instance) (bool, error) {
	latest, err := p.store.LatestTask(ctx, i.ID, "", "")
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return false, fmt.Errorf("read the instance's latest task: %w", err)
	}
	return i.State == store.Ready && latest.State != store.InProgress, nil
}

// fits refuses a plan that allows less data than the instance holds.
func (p *Provisioner) fits(ctx context.Context, i store.Instance, from, to plan.Plan) error {
	if from.MaxStorageMB > 0 && to.MaxStorageMB >= from.MaxStorageMB || to.ID == from.ID {
		return nil
	}
	size, err := p.databaseSize(ctx, i)
	if mysqladmin.Unreachable(err) && !errors.Is(err, store.ErrUnavailable) {
		return &Error{Code: Unavailable, Err: fmt.Errorf("measure the database: %w", err),
			Sentence: "The MySQL server does not answer just now. Try again in a minute, or tell your operator."}
	}
	if err != nil {
		return p.unlessDeleted(ctx, i.ID, fmt.Errorf("measure the database: %w", err))
	}
	if used := size.Used(to.Quota()); used > to.Quota() {
		return refuse(TooMuchData, "The database holds %d MiB and plan %s allows %d MiB. "+
			"Delete data, or choose a larger plan.", mebibytes(used), to.Name, to.MaxStorageMB)
	}
	return nil
}

func (p *Provisioner) databaseSize(ctx context.Context, i store.Instance) (size mysqladmin.Size, err error) {
	err = p.fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) (err error) {
		size, err = admin.DatabaseSize(ctx, i.Database)
		return err
	})
	return size, err
}

// recordUpdate commits the intent, then carries it out.
func (p *Provisioner) recordUpdate(ctx context.Context, id string, to plan.Plan, r request) (Result, error) {
	since := time.Now()
	var i store.Instance
	var t *store.Task
	joined := false
	err := p.store.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, id, "")
		if err != nil {
			return err
		}
		i, t = there.Instance, there.Task("")
		switch {
		case t != nil && t.Kind == store.Update && sameUpdate(t.Request, r):
			joined = true
			return nil
		case len(there.Active) > 0:
			return errBusy
		case i.State != store.Ready:
			return errNotReady
		case i.PlanID == r.PlanID && i.MaintenanceVersion == r.MaintenanceVersion:
			return nil
		}
		if bindings := boundAccounts(there); i.PlanID != to.ID && bindings > to.MaxBindings {
			return refuse(PlanChangeRefused, "This service instance has %d service bindings, and plan %s allows %d. "+
				"Delete %d of them, or choose a larger plan.", bindings, to.Name, to.MaxBindings, bindings-to.MaxBindings)
		}
		t = tx.InsertTask(p.begin(ctx, store.NewTask{InstanceID: id, Kind: store.Update, PlanID: r.PlanID,
			Request: r.json()}))
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Result{}, refuse(NotFound, "There is no service instance with this id.")
	case err != nil:
		return Result{}, fmt.Errorf("record the update: %w", err)
	case t == nil:
		return Result{}, nil
	case joined:
		return p.join(ctx, *t, r.Async)
	}
	return p.run(ctx, *t, p.updateWorkflow(i, r), r.Async, since)
}

// boundAccounts is how many bindings there are: those of the accounts that have not outlived theirs.
func boundAccounts(there store.Beginning) (n int) {
	for _, a := range there.Accounts {
		if a.BindingID != "" {
			n++
		}
	}
	return n
}

var errNotReady = refuse(Invalid, "The creation or deletion of this service instance failed. "+
	"Delete the service instance and create it again.")

func sameUpdate(recorded json.RawMessage, r request) bool {
	var was request
	if json.Unmarshal(recorded, &was) != nil {
		return false
	}
	was.Async = r.Async
	return bytes.Equal(was.json(), r.json())
}

package provisioner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
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
	Left     func() bool // tells whether the client is known to have left; nil: nobody knows

	told *time.Time // when the platform was told that there is no such instance, which is known to be before the request
}

// Provision makes an instance. A request that repeats an earlier one gets the same answer, one that differs is a
// Conflict. OSB API, "Provisioning".
func (p *Provisioner) Provision(ctx context.Context, q ProvisionRequest) (Result, error) {
	async, err := answersAsync(q.Plan, q.AcceptsIncomplete)
	if err != nil {
		return Result{}, err
	}
	if q.Received.IsZero() {
		q.Received = time.Now()
	}
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	for {
		result, err := p.provisionNew(ctx, q, async)
		if errors.Is(err, store.ErrExists) {
			result, err = p.provisionAgain(ctx, q, async)
		}
		if errors.Is(err, errUndone) {
			continue
		}
		if !errors.Is(err, errRaced) {
			return result, err
		}
		if q.told, err = p.toldBefore(ctx, q); err != nil {
			return Result{}, err
		}
	}
}

// toldBefore returns when the platform was told last that there is no such instance, nil if it was not lately, or an
// error if that was after the request was received: what the platform believes to be gone must not be made. Where the
// two are too close to each other to be told apart, a client that still waits for its answer learns of the instance.
func (p *Provisioner) toldBefore(ctx context.Context, q ProvisionRequest) (*time.Time, error) {
	told, order, err := p.store.OrderAbsence(ctx, q.InstanceID, q.Received)
	if err != nil {
		return nil, fmt.Errorf("find out what the platform was told of the instance: %w", err)
	}
	if order == store.Before || order == store.Unclear && q.Left != nil && q.Left() {
		return nil, errOvertaken
	}
	return told, nil
}

var errOvertaken = refuse(Busy, "The service instance was deleted while this request was on its way, and is not made. "+
	"Ask for it again.")

// errRaced means that an instance came or went between two statements.
var errRaced = errors.New("another request was faster")

// provisionNew records an instance and makes it, or returns store.ErrExists if it is there.
func (p *Provisioner) provisionNew(ctx context.Context, q ProvisionRequest, async bool) (Result, error) {
	i := store.Instance{ID: q.InstanceID, ServiceID: q.Plan.ServiceID, PlanID: q.Plan.ID,
		OrganizationGUID: q.OrganizationGUID, SpaceGUID: q.SpaceGUID, Context: q.Context,
		Parameters: encode(q.Parameters), MaintenanceVersion: q.Plan.MaintenanceVersion}
	if q.Plan.Kind == plan.Shared {
		return p.place(ctx, i, q, async)
	}
	l, err := p.fleet.Launcher(q.Plan.Launcher)
	if err != nil {
		return Result{}, cmp.Or(p.absent(ctx, i.ID), error(&Error{Code: Invalid, Err: err,
			Sentence: "This broker offers no dedicated servers. Choose a shared plan."}))
	}
	if err := plausibleCharset(q.Parameters); err != nil {
		return Result{}, cmp.Or(p.absent(ctx, i.ID), err)
	}
	i.Location, i.AdminPassword = store.DedicatedLocation(l.Name, newName("d_")), newPassword()
	result, _, err := p.record(ctx, i, q.told, 0, async)
	return result, err
}

// absent returns nil if there is no instance of that id, else store.ErrExists: what is there already needs no place.
func (p *Provisioner) absent(ctx context.Context, id string) error {
	_, err := p.store.Instance(ctx, id)
	switch {
	case err == nil:
		return store.ErrExists
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return fmt.Errorf("look for the instance: %w", err)
}

// record commits the intent, then carries it out. told is what toldBefore has returned, max how many instances the
// shared server takes, load how many it holds then.
func (p *Provisioner) record(ctx context.Context, i store.Instance, told *time.Time, max int,
	async bool) (a Result, load int, err error) {
	since := time.Now()
	r := request{Async: async}
	i.Database = newName(mysqladmin.DatabasePrefix)
	lock := p.beginLock(ctx, i, instanceLock(i.ID))
	defer p.dropLock(lock)
	t, load, err := p.store.RecordProvision(ctx, since, told, i, p.begin(ctx, store.NewTask{InstanceID: i.ID,
		Kind: store.Provision, PlanID: i.PlanID, Request: r.json()}), max)
	if err != nil {
		return a, load, fmt.Errorf("record the instance: %w", err)
	}
	if err := p.reached(ctx, i, lock); t.Leased && err != nil {
		return a, load, p.takeBack(ctx, i, t, err)
	}
	w, err := p.provisionWorkflow(i, r, lock)
	if err != nil {
		return a, load, err
	}
	a, err = p.run(ctx, t, w, async, since)
	return a, load, err
}

// provisionAgain answers a request for an instance that is recorded.
func (p *Provisioner) provisionAgain(ctx context.Context, q ProvisionRequest, async bool) (Result, error) {
	var i store.Instance
	var active, anew *store.Task
	since := time.Now()
	r := request{Async: async}
	err := p.store.InTx(ctx, func(tx *store.Tx) (err error) {
		there, err := tx.Begin(ctx, q.InstanceID, "")
		if err != nil {
			return err
		}
		i, active = there.Instance, there.Task("")
		switch {
		case active != nil && active.Kind == store.Deprovision:
			return errBusy
		case !sameInstance(i, q):
			return refuse(Conflict, "A service instance with this id exists already and differs from the one asked for.")
		case active != nil || i.State == store.Ready:
			return nil
		case i.State == store.DeleteFailed:
			return errNotReady
		}
		// Its creation failed: the platform asks to try anew.
		tx.SetInstanceState(i.ID, store.Creating)
		anew = tx.InsertTask(p.begin(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID,
			Request: r.json()}))
		return nil
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Result{}, errRaced
	case err != nil:
		return Result{}, err
	case anew != nil:
		w, err := p.provisionWorkflow(i, r, instanceLock(i.ID))
		if err != nil {
			return Result{}, err
		}
		return p.run(ctx, *anew, w, async, since)
	case active != nil && active.Kind == store.Provision:
		return p.join(ctx, *active, async)
	}
	return Result{Existed: true}, nil
}

// sameInstance tells whether a request asks for the instance that is there.
func sameInstance(i store.Instance, q ProvisionRequest) bool {
	var parameters plan.InstanceParameters
	return json.Unmarshal(i.Parameters, &parameters) == nil && parameters == q.Parameters &&
		i.ServiceID == q.Plan.ServiceID && i.PlanID == q.Plan.ID &&
		i.OrganizationGUID == q.OrganizationGUID && i.SpaceGUID == q.SpaceGUID
}

func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // parameters are structs of strings, which always encode
	return raw
}

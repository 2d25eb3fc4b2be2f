package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// ProvisionRequest asks for an instance.
type ProvisionRequest struct {
	InstanceID        string
	Plan              Plan
	OrganizationGUID  string
	SpaceGUID         string
	Context           json.RawMessage
	Parameters        InstanceParameters
	AcceptsIncomplete bool
}

// Provision makes an instance. A request that repeats an earlier one gets the same answer, one that differs is a
// Conflict. OSB API, "Provisioning".
func (p *Provisioner) Provision(ctx context.Context, q ProvisionRequest) (Answer, error) {
	later, err := answersLater(q.Plan, q.AcceptsIncomplete)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	for {
		_, err := p.store.Instance(ctx, q.InstanceID)
		var answer Answer
		switch {
		case errors.Is(err, store.ErrNotFound):
			answer, err = p.provisionNew(ctx, q, later)
		case err == nil:
			answer, err = p.provisionAgain(ctx, q, later)
		default:
			err = fmt.Errorf("look for the instance: %w", err)
		}
		if !errors.Is(err, errRaced) {
			return answer, err
		}
	}
}

// errRaced means that an instance came or went between two statements.
var errRaced = errors.New("another request was faster")

// provisionNew records an instance that was not there and makes it.
func (p *Provisioner) provisionNew(ctx context.Context, q ProvisionRequest, later bool) (Answer, error) {
	i := store.Instance{ID: q.InstanceID, ServiceID: q.Plan.ServiceID, PlanID: q.Plan.ID,
		OrganizationGUID: q.OrganizationGUID, SpaceGUID: q.SpaceGUID, Context: q.Context,
		Parameters: encode(q.Parameters), MaintenanceVersion: q.Plan.MaintenanceVersion, Database: newName(mysqladmin.DatabasePrefix)}
	if q.Plan.Kind == Dedicated {
		if p.dedicated == nil {
			return Answer{}, &Error{Code: Invalid, Err: dedicated.ErrNoLauncher,
				Sentence: "This broker offers no dedicated servers. Choose a shared plan."}
		}
		if err := plausibleCharset(q.Parameters); err != nil {
			return Answer{}, err
		}
		i.DedicatedID, i.AdminPassword = newName("d_"), newPassword()
		return p.record(ctx, i, 0, later)
	}
	return p.place(ctx, i, q.Parameters, later)
}

// place finds a shared server for an instance. Servers that are full or cannot be used are passed over.
func (p *Provisioner) place(ctx context.Context, i store.Instance, q InstanceParameters, later bool) (Answer, error) {
	loads, err := p.store.ServerLoads(ctx)
	if err != nil {
		return Answer{}, fmt.Errorf("read how full the servers are: %w", err)
	}
	var unusable, refused error
	for _, server := range p.shared.Candidates(loads) {
		err := server.Check(ctx)
		if err == nil {
			err = takes(ctx, server, q)
		}
		if _, ok := errors.AsType[*mysqladmin.CharsetError](err); ok {
			refused = err // another server may be of the flavour that has it
			continue
		}
		if err != nil {
			p.log.Warn("shared server passed over", "server", server.Name(), "error", err)
			unusable = err
			continue
		}
		i.Server = server.Name()
		answer, err := p.record(ctx, i, server.MaxDatabases, later)
		if errors.Is(err, store.ErrServerFull) {
			continue
		}
		return answer, err
	}
	if refused != nil {
		return Answer{}, &Error{Code: Invalid, Sentence: "Parameter " + refused.Error() + ".", Err: refused}
	}
	if unusable != nil {
		return Answer{}, &Error{Code: Unavailable, Err: unusable,
			Sentence: "No shared MySQL server can be used just now. Try again in a few minutes, or tell your operator."}
	}
	p.log.Error("every shared server is full; add one to the configuration")
	p.onFull()
	return Answer{}, errFull
}

// takes asks a server whether it has the character set and collation, if any are wanted.
func takes(ctx context.Context, server *shared.Server, q InstanceParameters) error {
	if q == (InstanceParameters{}) {
		return nil
	}
	return server.ValidateCharset(ctx, q.Charset, q.Collation)
}

// record commits the intent, then carries it out. max is how many instances the shared server takes.
func (p *Provisioner) record(ctx context.Context, i store.Instance, max int, later bool) (Answer, error) {
	since := time.Now()
	r := request{Later: later}
	var t store.Task
	err := p.store.InTx(ctx, func(tx *store.Tx) error {
		inserted, err := tx.InsertInstance(ctx, i)
		if err != nil {
			return err
		}
		if !inserted {
			return errRaced
		}
		if t, err = tx.InsertTask(ctx, p.begin(store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID,
			Request: r.json()})); err != nil || i.Server == "" {
			return err
		}
		return tx.TakeServerPlace(ctx, i.Server, max) // last, as all provisions on that server wait for it
	})
	if err != nil {
		return Answer{}, fmt.Errorf("record the instance: %w", err)
	}
	w, err := p.provisionWorkflow(i, r)
	if err != nil {
		return Answer{}, err
	}
	return p.carryOut(ctx, t, w, later, since)
}

// provisionAgain answers a request for an instance that is recorded.
func (p *Provisioner) provisionAgain(ctx context.Context, q ProvisionRequest, later bool) (Answer, error) {
	var i store.Instance
	var active, anew *store.Task
	since := time.Now()
	r := request{Later: later}
	err := p.store.InTx(ctx, func(tx *store.Tx) (err error) {
		if i, err = tx.LockInstance(ctx, q.InstanceID); err != nil {
			return err
		}
		tasks, err := tx.ActiveTasks(ctx, i.ID)
		if err != nil {
			return fmt.Errorf("look for tasks in progress: %w", err)
		}
		active = taskOf(tasks, "")
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
		if err := tx.SetInstanceState(ctx, i.ID, store.Creating); err != nil {
			return err
		}
		t, err := tx.InsertTask(ctx, p.begin(store.NewTask{InstanceID: i.ID, Kind: store.Provision, PlanID: i.PlanID,
			Request: r.json()}))
		anew = &t
		return err
	})
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Answer{}, errRaced
	case err != nil:
		return Answer{}, err
	case anew != nil:
		w, err := p.provisionWorkflow(i, r)
		if err != nil {
			return Answer{}, err
		}
		return p.carryOut(ctx, *anew, w, later, since)
	case active != nil && active.Kind == store.Provision:
		return p.join(ctx, *active, later)
	}
	return Answer{Existed: true}, nil
}

// sameInstance tells whether a request asks for the instance that is there.
func sameInstance(i store.Instance, q ProvisionRequest) bool {
	var parameters InstanceParameters
	return json.Unmarshal(i.Parameters, &parameters) == nil && parameters == q.Parameters &&
		i.ServiceID == q.Plan.ServiceID && i.PlanID == q.Plan.ID &&
		i.OrganizationGUID == q.OrganizationGUID && i.SpaceGUID == q.SpaceGUID
}

func encode(v any) json.RawMessage {
	raw, _ := json.Marshal(v) // parameters are structs of strings, which always encode
	return raw
}

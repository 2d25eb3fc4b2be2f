package bindings

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// BindRequest asks for an account on an instance.
type BindRequest struct {
	InstanceID string
	BindingID  string
	ServiceID  string
	AppGUID    string // "" for a service key
	ReaderID   string // the client of UAA that reads the credentials of a service key in CredHub, "" for none
	Parameters plan.BindingParameters

	// The organization and the space that use the binding, "" if they are not known.
	OrganizationGUID, SpaceGUID string

	// Predecessor is the binding that the new one succeeds, "" for none. Inherits says that the request has no parameters,
	// so that the successor has those of its predecessor.
	Predecessor string
	Inherits    bool
}

// Bind creates a MySQL account for a binding, and always completes that before it returns. A request that repeats an
// earlier one gets the same credentials. One with the same id that differs is a Conflict. OSB API, "Binding".
func (bs *Bindings) Bind(ctx context.Context, q BindRequest) (c Credentials, existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, engine.SyncDeadline)
	defer cancel()
	d, result, err := bs.Operate(ctx, store.Bind, func(tx *store.Tx) (engine.Decision, error) {
		return bs.decideBind(ctx, tx, q)
	})
	if err != nil {
		return c, false, err
	}
	c, err = bs.credentials(ctx, d.Instance, d.Binding)
	return c, result.Existed, err
}

func (bs *Bindings) decideBind(ctx context.Context, tx *store.Tx, q BindRequest) (d engine.Decision, err error) {
	there, err := tx.BeginBind(ctx, q.InstanceID, q.BindingID, q.Predecessor)
	if errors.Is(err, store.ErrNotFound) {
		return d, engine.Refuse(engine.NotFound, "There is no service instance with this id.")
	}
	if err != nil {
		return d, err
	}
	if err := bs.bindable(there, q); err != nil {
		return d, err
	}
	i := there.Instance
	d.Instance = i
	if q, err = limitRole(i, bs.Plans.Get(i.PlanID), q); err != nil {
		return d, err
	}
	if there.Binding == nil {
		if d.Binding, err = bs.newBinding(there, q); err != nil {
			return d, err
		}
		if err := tx.InsertBinding(d.Binding); err != nil {
			return d, err
		}
	} else {
		d.Binding = *there.Binding
		d.Task, err = bs.bindAgain(there, q)
		if d.Joined = d.Task != nil; d.Joined || err != nil || d.Binding.State == store.Ready {
			return d, err
		}
		// An earlier unbind failed half-way: the account is created again.
		tx.SetBindingState(i.ID, d.Binding.ID, store.Creating)
	}
	d.Task = tx.InsertTask(bs.NewTask(ctx, store.NewTask{InstanceID: i.ID, BindingID: d.Binding.ID, Kind: store.Bind,
		PlanID: i.PlanID}))
	d.Workflow = bs.bindWorkflow(i, d.Binding)
	return d, nil
}

// bindable refuses a bind if the instance is not in the right state, or has as many bindings as its plan allows.
func (bs *Bindings) bindable(there store.Beginning, q BindRequest) error {
	switch {
	case there.Instance.ServiceID != q.ServiceID:
		return engine.Refuse(engine.Invalid, "The service_id is not that of this service instance.")
	case there.Expired || there.Binding != nil && hasExpired(*there.Binding, there.Now):
		return engine.Refuse(engine.Conflict,
			"The service binding with this id has expired. Delete it, and create another one.")
	case changing(there):
		return engine.ErrBusy
	case there.Instance.State != store.Ready:
		return engine.ErrNotReady
	case there.Instance.FrozenSince != nil && (there.Binding == nil || there.Binding.State != store.Ready):
		return engine.ErrFrozen // a new account could write
	}
	plan, err := bs.Plan(there.Instance.PlanID)
	if err != nil {
		return &engine.Error{Code: engine.Invalid, Err: err,
			Sentence: "The plan of this service instance is not offered any more. Update the service instance to another one."}
	}
	if q.Predecessor != "" && !plan.Rotatable {
		return engine.Refuse(engine.Invalid,
			"Plan %s does not offer the rotation of service bindings. Create another service binding "+
				"without predecessor_binding_id.", plan.Name)
	}
	most := plan.MaxBindings
	if q.Predecessor != "" {
		most++ // for a while, it exists beside its predecessor
	}
	if there.Binding == nil && there.Bindings >= most {
		return engine.Refuse(engine.TooManyBindings, "This service instance has %d service bindings, and plan %s allows %d. "+
			"Delete one that is not needed any more, or update the service instance to a larger plan.",
			there.Bindings, plan.Name, plan.MaxBindings)
	}
	return nil
}

// changing reports whether a task changes the instance itself, so that its bindings have to wait.
func changing(there store.Beginning) bool {
	t := there.Task("")
	return t != nil && t.Kind != store.BackUp
}

// bindAgain returns the task in progress of a binding that is already recorded, or nil if there is none.
func (bs *Bindings) bindAgain(there store.Beginning, q BindRequest) (*store.Task, error) {
	t := there.Task(q.BindingID)
	plan := bs.Plans.Get(there.Instance.PlanID)
	switch {
	case engine.Ends(t) || t != nil && t.Kind == store.Rotate:
		return nil, engine.ErrBusy
	case there.Binding.Predecessor != q.Predecessor || !sameRequest(*there.Binding, plan, q):
		return nil, engine.Refuse(engine.Conflict,
			"A service binding with this id exists already and differs from the one asked for.")
	}
	return t, nil
}

func (bs *Bindings) newBinding(there store.Beginning, q BindRequest) (store.Binding, error) {
	q, asked, err := succeed(there, q)
	if err != nil {
		return store.Binding{}, err
	}
	of := bs.Plans.Get(there.Instance.PlanID)
	tls, err := bs.bindingTLS(there.Instance, of, asked)
	if err != nil {
		return store.Binding{}, err
	}
	ttl := q.Parameters.TTL
	if q.Predecessor != "" && of.MaxBindingTTL > 0 { // it was allowed once, and the platform cannot choose another one
		ttl = min(ttl, of.MaxBindingTTL)
	}
	expires, err := expiry(there.Now, ttl, of)
	b := store.Binding{InstanceID: q.InstanceID, ID: q.BindingID, AppGUID: q.AppGUID,
		SpaceGUID: q.SpaceGUID, OrganizationGUID: q.OrganizationGUID, Predecessor: q.Predecessor,
		Parameters: engine.Encode(q.Parameters), Role: string(q.Parameters.Role), TLS: string(tls),
		Events: of.Events, Account: engine.NewName(mysqladmin.AccountPrefix), Password: engine.NewPassword(),
		CreatedAt: there.Now, ExpiresAt: expires}
	bs.chooseStore(&b, q, there.Predecessor)
	return b, err
}

// bindingTLS is the setting of a new binding: that of the plan, or a stricter one if the request asks for it.
func (bs *Bindings) bindingTLS(i store.Instance, of plan.Plan, asked plan.TLS) (plan.TLS, error) {
	switch {
	case asked == plan.TLSOptional && of.TLS == plan.TLSRequired:
		return "", engine.Refuse(engine.Invalid,
			"Parameter \"tls\" must be %[2]s or left out. Plan %[1]s requires TLS of every binding.",
			of.Name, plan.TLSRequired)
	case asked != plan.TLSRequired && of.TLS != plan.TLSRequired:
		return plan.TLSOptional, nil
	case bs.Fleet.WithoutTLS(i.Location):
		return "", engine.Refuse(engine.Invalid,
			"The MySQL server of this service instance offers no TLS, so a binding cannot require "+
				"it. Ask your operator to give the server a certificate.")
	}
	return plan.TLSRequired, nil
}

// sameRequest reports whether a request asks for what the binding has.
func sameRequest(b store.Binding, of plan.Plan, q BindRequest) bool {
	successor := q.Predecessor != ""
	if b.AppGUID != q.AppGUID && !(successor && q.AppGUID == "") {
		return false
	}
	if q.Inherits {
		return true
	}
	var recorded plan.BindingParameters
	if json.Unmarshal(b.Parameters, &recorded) != nil || recorded.TTL != q.Parameters.TTL ||
		b.Role != string(q.Parameters.Role) {
		return false
	}
	// The TLS setting may be that of the request that created the binding, or the one that the binding has. The two can
	// differ, because the plan's setting may have changed since.
	asked := q.Parameters.TLS
	return asked == recorded.TLS || cmp.Or(asked, of.TLS) == plan.TLS(b.TLS)
}

var bindKind = engine.Kind[*Bindings]{
	Beginning: "Creating the service binding",
	Kind:      task.Kind{Advice: "Bind again later.", Undoable: true, Adds: true},
	Workflow:  ofBinding((*Bindings).bindWorkflow),
}

// bindWorkflow creates the account of a binding and stores its credentials in CredHub, if they are to be there. If it
// fails, the response says so, and the binding is deleted.
func (bs *Bindings) bindWorkflow(i store.Instance, b store.Binding) task.Workflow {
	lock := steps.BindingLock(i.ID, b.ID)
	lock.Adds = true
	w := task.Workflow{
		Steps: []task.Step{{Name: "create account", Progress: "Creating the account",
			Do: func(ctx context.Context, run *task.Run) error {
				has, err := bs.Plan(i.PlanID)
				if err != nil {
					return err
				}
				return bs.InSession(i, lock, func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
					if there, err := s.Databases.Exists(ctx, i.Database); err != nil {
						return err
					} else if !there {
						return engine.Fail(run.Task, engine.DatabaseDropped, fmt.Errorf("no database %s", i.Database))
					}
					return s.Accounts.Create(ctx, fleet.AccountOf(i, b, has))
				})(ctx, run)
			}}},
		Cleanup: []task.Step{{Name: "drop account", Progress: "Dropping the account",
			Do: bs.InSession(i, lock, func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.Accounts.Drop(ctx, b.Account)
			})}},
		Durable:   true,
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.SetBindingState(i.ID, b.ID, store.Ready) },
		Failed: func(tx *store.Tx, _ task.Memory, undone bool) {
			if !undone { // the account is dropped with the instance
				tx.RecordRetiredAccount(i.ID, b.Account)
			}
			tx.DeleteBinding(i.ID, b.ID)
		},
	}
	if b.CredHubName != "" {
		w.Steps = append(w.Steps, bs.storeCredentials(i, b))
		w.Cleanup = append([]task.Step{bs.deleteCredentials(b)}, w.Cleanup...)
	}
	return w
}

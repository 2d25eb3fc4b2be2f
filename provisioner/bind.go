package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// BindRequest asks for an account on an instance.
type BindRequest struct {
	InstanceID string
	BindingID  string
	ServiceID  string
	AppGUID    string // "" for a service key
	Parameters plan.BindingParameters
}

// Credentials are what an application needs to use an instance.
type Credentials struct {
	Access
	Account    string
	Password   string
	TLSOnly    bool            // a login without TLS is refused, or cannot work
	Parameters json.RawMessage // what the binding was asked for with
}

// Bind makes a MySQL account for a binding, always before it answers. A request that repeats an earlier one gets the
// same credentials, one that differs is a Conflict. OSB API, "Binding".
func (p *Provisioner) Bind(ctx context.Context, q BindRequest) (c Credentials, existed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	for {
		if c, existed, err = p.bindOrJoin(ctx, q); !errors.Is(err, errUndone) {
			return c, existed, err
		}
	}
}

// bindOrJoin is Bind, or errUndone.
func (p *Provisioner) bindOrJoin(ctx context.Context, q BindRequest) (c Credentials, existed bool, err error) {
	since := time.Now()
	var i store.Instance
	var b store.Binding
	var t *store.Task
	lock := bindingLock(q.InstanceID, q.BindingID)
	joined := false
	err = p.store.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.BeginBind(ctx, q.InstanceID, q.BindingID)
		if err != nil {
			return err
		}
		i = there.Instance
		if err := p.bindable(there, q); err != nil {
			return err
		}
		if there.Binding == nil {
			if b, err = p.newBinding(i, q); err != nil {
				return err
			}
			if err := tx.InsertBinding(b); err != nil {
				return err
			}
		} else {
			b = *there.Binding
			if t, err = p.bindAgain(there, q); err != nil || t != nil || b.State == store.Ready {
				joined = true
				return err
			}
			// An earlier unbind of it failed half-way: the account is made whole again.
			tx.SetBindingState(i.ID, b.ID, store.Creating)
		}
		t = tx.InsertTask(p.begin(ctx, store.NewTask{InstanceID: i.ID, BindingID: b.ID, Kind: store.Bind, PlanID: i.PlanID}))
		lock = p.beginLock(ctx, i, lock)
		return nil
	})
	defer func() { p.dropLock(lock) }()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return c, false, refuse(NotFound, "There is no service instance with this id.")
	case err != nil:
		return c, false, fmt.Errorf("record the binding: %w", err)
	case t == nil: // it was there and ready
	case joined:
		if _, err := p.join(ctx, *t, false); err != nil {
			return c, false, err
		}
	default:
		if _, err := p.run(ctx, *t, p.bindWorkflow(i, b, lock), false, since); err != nil {
			return c, false, err
		}
	}
	c, err = p.credentials(ctx, i, b)
	return c, joined, err
}

// bindable refuses a bind for which the instance is not in the right state, or which its plan has no place for.
func (p *Provisioner) bindable(there store.Beginning, q BindRequest) error {
	switch {
	case there.Instance.ServiceID != q.ServiceID:
		return refuse(Invalid, "The service_id is not that of this service instance.")
	case there.Task("") != nil:
		return errBusy
	case there.Instance.State != store.Ready:
		return errNotReady
	}
	plan, err := p.plan(there.Instance.PlanID)
	if err != nil {
		return &Error{Code: Invalid, Err: err,
			Sentence: "The plan of this service instance is not offered any more. Update the service instance to another one."}
	}
	if there.Binding == nil && there.Bindings >= plan.MaxBindings {
		return refuse(TooManyBindings, "This service instance has %d service bindings, and plan %s allows %d. "+
			"Delete one that is not needed any more, or update the service instance to a larger plan.",
			there.Bindings, plan.Name, plan.MaxBindings)
	}
	return nil
}

// bindAgain answers a request for a binding that is recorded: with its task if that is in progress, else nil.
func (p *Provisioner) bindAgain(there store.Beginning, q BindRequest) (*store.Task, error) {
	t := there.Task(q.BindingID)
	plan := p.plans.Get(there.Instance.PlanID)
	switch {
	case t != nil && t.Kind == store.Unbind:
		return nil, errBusy
	case there.Binding.Role != string(q.Parameters.Role) || there.Binding.AppGUID != q.AppGUID ||
		!sameTLS(*there.Binding, plan, q.Parameters.TLS):
		return nil, refuse(Conflict, "A service binding with this id exists already and differs from the one asked for.")
	}
	return t, nil
}

func (p *Provisioner) newBinding(i store.Instance, q BindRequest) (store.Binding, error) {
	of := p.plans.Get(i.PlanID)
	tls, err := p.bindingTLS(i, of, q.Parameters.TLS)
	return store.Binding{InstanceID: q.InstanceID, ID: q.BindingID, AppGUID: q.AppGUID,
		Parameters: encode(q.Parameters), Role: string(q.Parameters.Role), TLS: string(tls),
		Events: of.Events, Account: newName("u_"), Password: newPassword()}, err
}

func (p *Provisioner) credentials(ctx context.Context, i store.Instance, b store.Binding) (Credentials, error) {
	address, err := p.fleet.Address(ctx, i.Location)
	if err != nil {
		return Credentials{}, p.unlessDeleted(ctx, i.ID, fmt.Errorf("find where the instance is: %w", err))
	}
	tlsOnly := plan.TLS(b.TLS).Required(address.CACertificate != nil) || p.fleet.TLSOnly(i.Location)
	return Credentials{Access: Access{address, i.Database}, Account: b.Account, Password: b.Password,
		Parameters: b.Parameters, TLSOnly: tlsOnly}, nil
}

// UnbindRequest asks to end a binding.
type UnbindRequest struct {
	InstanceID string
	BindingID  string
}

// Unbind ends a binding: when it returns, the account can log in no more and its sessions are closed. OSB API,
// "Unbinding".
func (p *Provisioner) Unbind(ctx context.Context, q UnbindRequest) error {
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	since := time.Now()
	var there store.Beginning
	var t, cancelled *store.Task
	lock := bindingLock(q.InstanceID, q.BindingID)
	joined := false
	err := p.store.InTx(ctx, func(tx *store.Tx) (err error) {
		if there, err = tx.Begin(ctx, q.InstanceID, q.BindingID); err != nil {
			return err
		}
		if there.Binding == nil {
			return store.ErrNotFound
		}
		if there.Task("") != nil {
			return errBusy
		}
		current := there.Task(q.BindingID)
		if current != nil && current.Kind == store.Unbind {
			t, joined = current, true
			return nil
		}
		// The binding before its task, as the end of the task locks them.
		tx.SetBindingState(q.InstanceID, q.BindingID, store.Ending)
		if current != nil {
			cancelled = current
			tx.CancelTask(current.ID, "Cancelled, because the binding is being deleted.")
		}
		t = tx.InsertTask(p.begin(ctx, store.NewTask{InstanceID: q.InstanceID, BindingID: q.BindingID, Kind: store.Unbind,
			PlanID: there.Instance.PlanID}))
		lock = p.beginLock(ctx, there.Instance, lock)
		return nil
	})
	defer func() { p.dropLock(lock) }()
	switch {
	case errors.Is(err, store.ErrNotFound):
		return refuse(AlreadyDeleted, "There is no service binding with this id.")
	case err != nil:
		return fmt.Errorf("record the unbind: %w", err)
	case joined:
		_, err = p.join(ctx, *t, false)
		return err
	}
	if cancelled != nil {
		p.tasks.Cancelled(*cancelled)
	}
	_, err = p.run(ctx, *t, p.unbindWorkflow(there.Instance, *there.Binding, lock), false, since)
	return err
}

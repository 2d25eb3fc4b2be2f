package bindings

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	// expiryInterval is the time between two rounds while there are expired bindings.
	expiryInterval = 5 * time.Second
	// expiredAtOnce is how many tasks are recorded each time. Many bindings may have expired while no broker ran.
	expiredAtOnce = 500
	// locksAtOnce is on how many servers accounts are locked at the same time.
	locksAtOnce = 16
	// lockTime limits the attempt to lock one account. The next round tries again.
	lockTime = 10 * time.Second
)

// expiry returns when a binding that is created now ends by itself; nil for never.
func expiry(now time.Time, asked plan.TTL, of plan.Plan) (*time.Time, error) {
	if of.MaxBindingTTL > 0 && asked > of.MaxBindingTTL {
		return nil, engine.Refuse(engine.Invalid, "Parameter \"ttl\" must be at most %s, the maximum of plan %s.",
			of.MaxBindingTTL, of.Name)
	}
	if asked == 0 {
		asked = of.MaxBindingTTL
	}
	if asked == 0 {
		return nil, nil
	}
	at := now.Add(time.Duration(asked))
	return &at, nil
}

// renewal returns when a binding that expires should be replaced: after three quarters of its time.
func renewal(b store.Binding) time.Time {
	return b.ExpiresAt.Add(-b.ExpiresAt.Sub(b.CreatedAt) / 4)
}

func hasExpired(b store.Binding, now time.Time) bool {
	return b.ExpiresAt != nil && !b.ExpiresAt.After(now)
}

// Expire ends bindings that have expired by PostgreSQL's clock, until ctx ends. One broker does that for all. It sleeps
// until the tasks' runner finds one that has expired.
func (bs *Bindings) Expire(ctx context.Context) {
	leader.Work{Store: bs.Store, Log: bs.Log, Lease: "expiry", What: "ending expired bindings", Every: expiryInterval,
		Await: func(ctx context.Context) {
			select {
			case <-ctx.Done():
			case <-bs.expired:
			}
		}, Do: bs.ExpireDue}.Run(ctx)
}

// ExpireDue is one round of Expire. It records a task for each expired binding, which any worker of any broker runs.
func (bs *Bindings) ExpireDue(ctx context.Context) error {
	if hold, err := bs.Store.Recovery.Hold(ctx); err != nil || hold != nil {
		return err // the binding may have been changed since
	}
	due, err := bs.Store.Bindings.Expired(ctx, expiredAtOnce)
	if unsure := bs.SureOfAges(ctx, len(due)); unsure != nil {
		return errors.Join(err, unsure)
	}
	busy := map[store.Location][]expired{}
	for _, b := range due {
		if ctx.Err() != nil {
			break
		}
		i, failed := bs.expire(ctx, b)
		if err = errors.Join(err, failed); i != nil {
			busy[i.Location] = append(busy[i.Location], expired{*i, b})
		}
	}
	if len(due) > 0 {
		bs.Tasks.Nudge()
	}
	return errors.Join(err, bs.lockAll(ctx, busy))
}

// expired is an expired binding whose instance another task is changing.
type expired struct {
	instance store.Instance
	binding  store.ExpiredBinding
}

// lockAll locks accounts on several servers at once, because one of them may not answer.
func (bs *Bindings) lockAll(ctx context.Context, busy map[store.Location][]expired) error {
	var (
		locking errgroup.Group
		mu      sync.Mutex
		all     error
	)
	locking.SetLimit(locksAtOnce)
	for _, of := range busy {
		locking.Go(func() error {
			err := bs.lockEach(ctx, of)
			mu.Lock()
			defer mu.Unlock()
			all = errors.Join(all, err)
			return nil
		})
	}
	_ = locking.Wait() // the errors are in all
	return all
}

// lockEach locks accounts on one server. If the server does not answer, it leaves the rest to the next round.
func (bs *Bindings) lockEach(ctx context.Context, of []expired) (all error) {
	for _, e := range of {
		err := bs.lockExpired(ctx, e.instance, e.binding)
		if all = errors.Join(all, err); errors.Is(err, context.DeadlineExceeded) {
			break
		}
	}
	return all
}

// expire records a task that ends a binding. If an operation is changing the instance, it returns the instance instead.
func (bs *Bindings) expire(ctx context.Context, b store.ExpiredBinding) (i *store.Instance, err error) {
	err = bs.Store.InTx(ctx, func(tx *store.Tx) error {
		i = nil
		there, err := tx.Begin(ctx, b.InstanceID, b.ID)
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && (there.Binding == nil || there.Task(b.ID) != nil ||
			there.Binding.Account != b.Account):
			return nil // somebody else ends it, or has ended it and created another one
		case err != nil:
			return err
		case changing(there):
			i = &there.Instance
			return nil
		}
		tx.SetBindingState(b.InstanceID, b.ID, store.Ending)
		tx.InsertTask(store.NewTask{InstanceID: b.InstanceID, BindingID: b.ID, Kind: store.Expire,
			PlanID: there.Instance.PlanID, Description: expireKind.Beginning})
		return nil
	})
	if err != nil {
		err = fmt.Errorf("end the expired binding %q of instance %q: %w", b.ID, b.InstanceID, err)
	}
	return i, err
}

// lockExpired locks the account of a binding while another task changes its instance, which may take long. The binding
// itself ends after that task.
func (bs *Bindings) lockExpired(ctx context.Context, i store.Instance, b store.ExpiredBinding) error {
	if i.State != store.Ready {
		return nil // it is being deleted
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	session, err := bs.Fleet.OpenSession(ctx, i, fleet.Lock{Key: fleet.BindingLock(i.ID, b.ID),
		Alive: func() error { return ctx.Err() }})
	if err == nil {
		defer bs.CloseSession(i, session)
		err = session.Explain(session.Accounts.Lock(session.Context(), b.Account))
	}
	if err != nil {
		err = fmt.Errorf("lock the account of the expired binding %q of instance %q: %w", b.ID, b.InstanceID, err)
	}
	return err
}

var expireKind = engine.Kind[*Bindings]{
	Beginning: "Ending the expired service binding",
	Kind:      task.Kind{Advice: "The broker tries again."},
	Workflow:  ofBinding((*Bindings).expireWorkflow),
}

// expireWorkflow is the workflow of an unbind that no platform has requested. It leaves a record, so that a later
// request of the platform succeeds.
func (bs *Bindings) expireWorkflow(i store.Instance, b store.Binding) task.Workflow {
	w := bs.unbindWorkflow(i, b)
	unbound := w.Succeeded
	w.Succeeded = func(tx *store.Tx, m task.Memory) {
		tx.RecordExpired(i.ID, b.ID)
		unbound(tx, m)
		bs.Log.Info("a service binding has expired", "instance_id", i.ID, "binding_id", b.ID)
	}
	return w
}

package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// DeprovisionRequest asks to delete an instance. Plan is the one that the platform names; once the instance is
// found, its own plan decides.
type DeprovisionRequest struct {
	InstanceID        string
	Plan              plan.Plan
	AcceptsIncomplete bool
}

// doubtTime is by how much a request may be older than the broker knows (see httpapi.Client): what the platform is
// told is dated so much later that no request of before seems to be newer.
const doubtTime = 25 * time.Millisecond

// cancelledByDeprovision is what users read of a task that its instance's deletion overtook.
const cancelledByDeprovision = "Cancelled, because the service instance is being deleted."

// Deprovision deletes an instance and cancels whatever is in progress on it. OSB API, "Deprovisioning".
func (p *Provisioner) Deprovision(ctx context.Context, q DeprovisionRequest) (Result, error) {
	if _, err := answersAsync(q.Plan, q.AcceptsIncomplete); err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, syncDeadline)
	defer cancel()
	since := time.Now()
	var i store.Instance
	var t *store.Task
	var accounts []store.BindingAccount
	var cancelled []store.Task
	lock := instanceLock(q.InstanceID)
	var async, joined, absent bool
	err := p.store.InTx(ctx, func(tx *store.Tx) error {
		there, err := tx.Begin(ctx, q.InstanceID, "")
		if errors.Is(err, store.ErrNotFound) {
			time.Sleep(time.Until(since.Add(doubtTime)))
			there, err = tx.BeginAbsent(ctx, q.InstanceID)
		}
		if absent = errors.Is(err, store.ErrNotFound); absent {
			return nil // which commits that the platform is told so
		}
		if err != nil {
			return err
		}
		i, accounts = there.Instance, there.Accounts
		if i.ServiceID != q.Plan.ServiceID {
			return refuse(Invalid, "The service_id is not that of this service instance.")
		}
		if async, err = answersAsync(p.planOf(i), q.AcceptsIncomplete); err != nil {
			return err
		}
		if t = there.Task(""); t != nil && t.Kind == store.Deprovision {
			joined = true
			return nil
		}
		cancelled = there.Active
		for _, a := range cancelled {
			tx.CancelTask(a.ID, cancelledByDeprovision)
		}
		t = tx.InsertTask(p.begin(ctx, store.NewTask{InstanceID: i.ID, Kind: store.Deprovision, PlanID: i.PlanID,
			Request: request{Async: async}.json()}))
		if len(accounts) == 0 { // else they come first, by sessions of their own: nobody may wait for a second one
			lock = p.beginLock(ctx, i, lock)
		}
		return nil
	})
	defer func() { p.dropLock(lock) }()
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("record the deprovision: %w", err)
	case absent:
		return Result{}, refuse(AlreadyDeleted, "There is no service instance with this id.")
	case joined:
		return p.join(ctx, *t, async)
	}
	for _, c := range cancelled {
		p.tasks.Cancelled(c)
	}
	return p.run(ctx, *t, p.deprovisionWorkflow(i, accounts, lock), async, since)
}

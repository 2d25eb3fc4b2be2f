package engine

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Plan returns a plan for a step that needs its limits. If the catalog of this broker does not have it, the task is
// left to a broker whose catalog does.
func (e *Engine) Plan(id string) (plan.Plan, error) {
	found := e.Plans.Get(id)
	if found.Removed {
		return found, task.RequeueElsewhere(fmt.Errorf("plan %q is not in the catalog", id))
	}
	return found, nil
}

// PlanOf returns the plan of an instance or, if the plan was removed from the catalog, what is still known about it.
func (e *Engine) PlanOf(i store.Instance) plan.Plan {
	return e.Plans.Of(i.PlanID, i.ServiceID, plan.Kind(i.Location.Kind))
}

// PlanID returns the id of an instance's plan. The instance may be in any state.
func (e *Engine) PlanID(ctx context.Context, id string) (planID string, err error) {
	i, err := e.Recorded(ctx, id)
	return i.PlanID, err
}

// RemovedPlan finds an instance's plan by the id of a plan that was removed from the catalog. Platforms keep such a
// plan for the instances that have it. They also keep it for instances that were changed to another plan without the
// platform's knowledge. They must still be able to delete these instances. found is false if the instance is of another
// service, or never had that plan.
func (e *Engine) RemovedPlan(ctx context.Context, instanceID, serviceID,
	planID string) (had plan.Plan, found bool, err error) {
	recorded, err := e.Store.Instances.HadPlan(ctx, instanceID, planID)
	if err != nil {
		return had, false, fmt.Errorf("find the instance's former plans: %w", err)
	}
	if !recorded {
		return had, false, nil
	}
	i, err := e.Store.Instances.Get(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) {
		return plan.Plan{ID: planID, ServiceID: serviceID, Removed: true}, true, nil
	}
	if err != nil {
		return had, false, fmt.Errorf("read the instance: %w", err)
	}
	return e.PlanOf(i), i.ServiceID == serviceID, nil
}

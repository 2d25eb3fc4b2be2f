package provisioner

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// planOf is the plan that an instance has, or what is still known of it.
func (p *Provisioner) planOf(i store.Instance) plan.Plan {
	return p.plans.Of(i.PlanID, i.ServiceID, plan.Kind(i.Location.Kind))
}

// RemovedPlan finds the plan of an instance by the id of a plan that was removed from the catalog. Platforms keep such
// a plan for the instances that have it, and for those that had it and of whose change they were never told; they must
// be able to delete them, and to learn that they are deleted. found is false if the instance is of another service, or
// never had that plan.
func (p *Provisioner) RemovedPlan(ctx context.Context,
	instanceID, serviceID, planID string) (had plan.Plan, found bool, err error) {
	recorded, err := p.store.HadPlan(ctx, instanceID, planID)
	if err != nil {
		return had, false, fmt.Errorf("look for the instance's former plans: %w", err)
	}
	if !recorded {
		return had, false, nil
	}
	i, err := p.store.Instance(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) {
		return plan.Plan{ID: planID, ServiceID: serviceID, Removed: true}, true, nil
	}
	if err != nil {
		return had, false, fmt.Errorf("read the instance: %w", err)
	}
	return p.planOf(i), i.ServiceID == serviceID, nil
}

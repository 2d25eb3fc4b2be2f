package provisioner

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/store"
)

// planOf is the plan that an instance has, or what is still known of it.
func (p *Provisioner) planOf(i store.Instance) Plan {
	if plan, known := p.plans[i.PlanID]; known {
		return plan
	}
	return withdrawn(i)
}

// withdrawn stands in for the plan of an instance that outlived it in the catalog: it says how the instance was made
// and leaves the limits at zero, as nobody knows them any more.
func withdrawn(i store.Instance) Plan {
	plan := Plan{ID: i.PlanID, ServiceID: i.ServiceID, Kind: Shared, Async: AsyncNever}
	if i.DedicatedID != "" {
		plan.Kind, plan.Async = Dedicated, AsyncRequired
	}
	return plan
}

// Withdrawn finds the plan of an instance by the id of a plan that is not in the catalog any more. Platforms keep such
// a plan for the instances that have it, and for those that had it and of whose change they were never told; they must
// be able to delete them, and to learn that they are deleted. found is false if the instance is of another service, or
// never had that plan.
func (p *Provisioner) Withdrawn(ctx context.Context, instanceID, serviceID, planID string) (
	plan Plan, found bool, err error) {
	had, err := p.store.HadPlan(ctx, instanceID, planID)
	if err != nil {
		return plan, false, fmt.Errorf("look for the instance's former plans: %w", err)
	}
	if !had {
		return plan, false, nil
	}
	i, err := p.store.Instance(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) {
		return Plan{ID: planID, ServiceID: serviceID}, true, nil
	}
	if err != nil {
		return plan, false, fmt.Errorf("read the instance: %w", err)
	}
	return p.planOf(i), i.ServiceID == serviceID, nil
}

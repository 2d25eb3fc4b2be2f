package instances

import (
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Within returns a function that refuses an instance of a plan if it is one more than the catalog allows; nil if the
// catalog allows any number. The counts include the instance.
func (is *Instances) within(of plan.Plan) func(store.InstanceCounts) error {
	if !of.Limits.Any() && !is.limits.Any() {
		return nil
	}
	return func(n store.InstanceCounts) error {
		if err := withinPlan(of, n); err != nil {
			return err
		}
		return withinLimits(is.limits, n.OfOrganization, n.All, "")
	}
}

// withinPlan refuses an instance if it is one more than its plan allows. The counts include the instance.
func withinPlan(of plan.Plan, n store.InstanceCounts) error {
	return withinLimits(of.Limits, n.OfPlanAndOrganization, n.OfPlan, " of plan "+of.Name)
}

func withinLimits(l plan.Limits, ofOrganization, all int, what string) error {
	who, n, limit := "Your organization", ofOrganization, l.PerOrganization
	if limit == 0 || n <= limit {
		who, n, limit = "This service broker", all, l.Instances
	}
	if limit == 0 || n <= limit {
		return nil
	}
	return engine.Refuse(engine.Full,
		"%s has %d service instances%s, and may have %d. Delete one that is not needed any more, or ask "+
			"your operator for a higher limit.", who, n-1, what, limit)
}

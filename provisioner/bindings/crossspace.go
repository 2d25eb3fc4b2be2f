package bindings

import (
	"cmp"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// limitRole limits the role of a binding in another space, with which the instance is shared: it can only read, unless
// the plan allows more. A request that names no role gets the default role, or the highest one that is allowed.
func limitRole(i store.Instance, of plan.Plan, q BindRequest) (BindRequest, error) {
	most := cmp.Or(of.SharedRole, plan.ReadOnly)
	if q.Predecessor != "" || !spacesDiffer(q.SpaceGUID, i.SpaceGUID) || !q.Parameters.Role.Beyond(most) {
		return q, nil
	}
	if q.Parameters.RoleNamed {
		return q, engine.Refuse(engine.Invalid,
			"Parameter \"role\" must be at most %s: the service instance belongs to another space, "+
				"and plan %s allows no more.", most, of.Name)
	}
	q.Parameters.Role = most
	return q, nil
}

// spacesDiffer reports whether two spaces are known, and are not the same.
func spacesDiffer(space, other string) bool { return space != "" && other != "" && space != other }

package provisioner

import (
	"cmp"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// limitRole limits the role of a request by another space than that of the instance, which is shared with it: to
// reading, unless the plan allows more. A request that names no role gets as much as it may.
func limitRole(i store.Instance, of plan.Plan, q BindRequest) (BindRequest, error) {
	most := cmp.Or(of.SharedRole, plan.ReadOnly)
	if q.Predecessor != "" || q.SpaceGUID == "" || i.SpaceGUID == "" ||
		q.SpaceGUID == i.SpaceGUID || !q.Parameters.Role.Beyond(most) {
		return q, nil
	}
	if q.Parameters.RoleNamed {
		return q, refuse(Invalid, "Parameter \"role\" must be at most %s: the service instance is shared by another space, "+
			"and plan %s allows no more.", most, of.Name)
	}
	q.Parameters.Role = most
	return q, nil
}

package bindings

import (
	"cmp"
	"encoding/json"
	"fmt"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// succeed completes the request for a binding with a predecessor: the new binding gets the application, the parameters
// and so the rights of its predecessor. Other requests stay as they are. Objects that the predecessor's account has
// defined keep working, even after its unbind: see unbindWorkflow. OSB API 2.17, "Binding Rotation".
//
// tls is what the new account has to require. It may differ from the parameters, because the plan's setting may have
// changed since the predecessor was created.
func succeed(there store.Beginning, q BindRequest) (_ BindRequest, tls plan.TLS, _ error) {
	if q.Predecessor == "" {
		return q, q.Parameters.TLS, nil
	}
	before := there.Predecessor
	switch {
	case q.Predecessor == q.BindingID:
		return q, "", engine.Refuse(engine.Invalid, "A service binding cannot be its own predecessor.")
	case before == nil || before.State == store.Ending || hasExpired(*before, there.Now) ||
		// The other space may have rights that limitRole does not give to this one.
		spacesDiffer(q.SpaceGUID, cmp.Or(before.SpaceGUID, there.Instance.SpaceGUID)):
		return q, "", engine.Refuse(engine.Invalid,
			"The predecessor_binding_id is not that of a service binding of this service "+
				"instance. Create a service binding without it.")
	case before.State != store.Ready:
		return q, "", engine.ErrBusy
	}
	var had plan.BindingParameters
	if err := json.Unmarshal(before.Parameters, &had); err != nil {
		return q, "", fmt.Errorf("read the parameters of the predecessor: %w", err)
	}
	q.Parameters.RoleNamed = false
	if had.Role = plan.Role(before.Role); !q.Inherits && q.Parameters != had {
		return q, "", engine.Refuse(engine.Invalid,
			"A service binding with a predecessor_binding_id has the parameters of its "+
				"predecessor. Leave out other ones, or create a service binding without a predecessor.")
	}
	q.Parameters = had
	if before.SpaceGUID != "" { // it has the rights of that space
		q.SpaceGUID, q.OrganizationGUID = before.SpaceGUID, before.OrganizationGUID
	}
	if q.AppGUID == "" {
		q.AppGUID = before.AppGUID
	}
	if plan.TLS(before.TLS) == plan.TLSRequired {
		tls = plan.TLSRequired
	}
	return q, tls, nil
}

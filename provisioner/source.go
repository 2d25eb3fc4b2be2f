package provisioner

import (
	"encoding/json"

	"mysql-broker/provisioner/plan"
)

// tenant says to whom an instance belongs. Parameters of a create request can name another instance, or what is kept of
// a deleted one; the new instance then gets its data. Brokers do not see the roles of users, so that both must belong to
// the same tenant.
type tenant struct {
	platform     string // "cloudfoundry" or "kubernetes", for example
	organization string // the organization's GUID, or the id of the Kubernetes cluster
	space        string // the space's GUID, or the Kubernetes namespace
}

// tenantOf reads the tenant from a request, or from what was recorded of it. Only the context object says what kind of
// platform sent a request, so that a tenant without one is incomplete.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/profile.md#context-object
func tenantOf(organization, space string, context json.RawMessage) tenant {
	var c struct {
		Platform  string `json:"platform"`
		Cluster   string `json:"clusterid"`
		Namespace string `json:"namespace"`
	}
	if json.Unmarshal(context, &c) != nil { // platforms may put anything there
		return tenant{}
	}
	if c.Platform == "kubernetes" {
		return tenant{c.Platform, c.Cluster, c.Namespace}
	}
	return tenant{c.Platform, organization, space}
}

// complete reports whether everything is known that tells this tenant from others.
func (t tenant) complete() bool { return t.platform != "" && t.organization != "" && t.space != "" }

// mayUse reports whether a new instance of this tenant and plan may get the data of one of another tenant and plan.
// Different or unknown tenants may only if the operator allows it for both plans.
func (t tenant) mayUse(of tenant, its, source plan.Plan) bool {
	return t.complete() && t == of || its.AllowCrossSpace && source.AllowCrossSpace
}

// noSource refuses a request that names a source which does not exist or belongs to another tenant. Both get the same
// sentence, so that nobody can find out which ids exist in other spaces.
func noSource(id string) error {
	return refuse(Invalid, "There is no service instance %s in this space.", id)
}

package catalog

import "mysql-broker/provisioner/plan"

// readLimits reads the optional key "limits" of the catalog or of a plan's key "broker".
func readLimits(parent *object) (limits plan.Limits) {
	o, ok := parent.object("limits")
	if !ok {
		return limits
	}
	keep(o.positive("instances"), &limits.Instances)
	keep(o.positive("instances_per_organization"), &limits.PerOrganization)
	o.close()
	return limits
}

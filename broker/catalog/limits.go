package catalog

import "mysql-broker/provisioner/plan"

// readLimits reads the optional key "limits" of the catalog or of a plan's key "broker".
func readLimits(parent *object) (limits plan.Limits) {
	if !parent.has("limits") {
		return limits
	}
	o, ok := parent.object("limits")
	if !ok {
		return limits
	}
	for key, target := range map[string]*int{
		"instances":                  &limits.Instances,
		"instances_per_organization": &limits.PerOrganization,
	} {
		if value := o.positive(key); value != nil {
			*target = *value
		}
	}
	o.close()
	return limits
}

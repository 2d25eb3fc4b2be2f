package catalog

import (
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// readPlans sets the plans of service, which platforms see, and returns the broker's part of each plan.
func readPlans(o *object, service *domain.Service, taken identities) []entry {
	var plans []entry
	names := map[string]int{} // unique within an offering only
	for _, item := range o.objects("plans", "the plan") {
		shown, kept := readPlan(item, names, taken.planIDs)
		kept.ServiceID = service.ID
		service.Plans = append(service.Plans, shown)
		plans = append(plans, kept)
	}
	return plans
}

// readPlan reads a plan.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/spec.md#service-plan-object
func readPlan(o *object, names, ids map[string]int) (domain.ServicePlan, entry) {
	shown := domain.ServicePlan{
		ID:                     o.unique("id", ids),
		Name:                   o.unique("name", names),
		Description:            o.description(),
		Free:                   o.flag("free"),
		Bindable:               o.flag("bindable"),
		PlanUpdatable:          o.flag("plan_updateable"),
		Metadata:               readMetadata[domain.ServicePlanMetadata](o),
		MaximumPollingDuration: o.positive("maximum_polling_duration"),
		MaintenanceInfo:        readMaintenanceInfo(o),
	}
	kept := entry{readBrokerKey(o), readSchemas(o)}
	shown.Schemas = kept.requestSchemas.shown()
	kept.ID, kept.Name = shown.ID, shown.Name
	keep(o.flag("binding_rotatable"), &kept.Rotatable)
	if shown.MaintenanceInfo != nil {
		kept.MaintenanceVersion = shown.MaintenanceInfo.Version
	}
	if shown.MaximumPollingDuration != nil {
		kept.MaxPolling = time.Duration(*shown.MaximumPollingDuration) * time.Second
	}
	o.close()
	return shown, kept
}

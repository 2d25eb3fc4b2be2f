package catalog

import (
	"strings"
	"unicode/utf8"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// Limits of Cloud Controller, in characters.
const (
	maxDescription = 10_000
	maxTags        = 2_048 // total of an offering's tags
)

// unusable are keys of the specification that this broker does not support, with the reason for the operator.
var unusable = map[string]string{
	"requires":         "a database has no use for syslog_drain, route_forwarding or volume_mount",
	"dashboard_client": "its secret has no place in a file; set DASHBOARD_CLIENT_ID and DASHBOARD_CLIENT_SECRET",
}

// readOffering reads a service offering.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/spec.md#service-offering-object
func readOffering(o *object, taken identities) (domain.Service, []entry) {
	service := domain.Service{
		ID:          o.unique("id", taken.serviceIDs),
		Name:        o.unique("name", taken.serviceNames),
		Description: o.description(),
		Tags:        o.tags(),
		Metadata:    readMetadata[domain.ServiceMetadata](o),
	}
	o.require("bindable")
	keep(o.flag("bindable"), &service.Bindable)
	keep(o.flag("plan_updateable"), &service.PlanUpdatable)
	keep(o.flag("instances_retrievable"), &service.InstancesRetrievable)
	keep(o.flag("bindings_retrievable"), &service.BindingsRetrievable)
	for key, reason := range unusable {
		if f, present := o.fields[key]; present {
			o.found.add(f.line, "%q must be left out: %s", key, reason)
			o.asked[key] = true
		}
	}
	plans := readPlans(o, &service, taken)
	o.close()
	return service, plans
}

func (o *object) description() string {
	value := o.text("description")
	if utf8.RuneCountInString(value) > maxDescription {
		o.reject("description", "at most 10000 characters")
	}
	return value
}

func (o *object) tags() []string {
	tags := o.strings("tags")
	if utf8.RuneCountInString(strings.Join(tags, "")) > maxTags {
		o.reject("tags", "at most 2048 characters together")
	}
	return tags
}

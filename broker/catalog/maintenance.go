package catalog

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

// maxMaintenanceInfo is Cloud Controller's limit, in characters of JSON.
const maxMaintenanceInfo = 2_000

// semanticVersion is the grammar of https://semver.org/spec/v2.0.0.html.
var semanticVersion = func() *regexp.Regexp {
	const (
		number     = `(0|[1-9][0-9]*)`
		prerelease = `(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)`
		build      = `[0-9A-Za-z-]+`
	)
	return regexp.MustCompile(`^` + number + `\.` + number + `\.` + number +
		`(-` + prerelease + `(\.` + prerelease + `)*)?(\+` + build + `(\.` + build + `)*)?$`)
}()

// readMaintenanceInfo reads maintenance_info. It returns nil if the plan has none.
// https://github.com/openservicebrokerapi/servicebroker/blob/v2.17/spec.md#maintenance-info-object
func readMaintenanceInfo(plan *object) *domain.MaintenanceInfo {
	o, ok := plan.object("maintenance_info")
	if !ok {
		return nil
	}
	info := &domain.MaintenanceInfo{Version: o.text("version")}
	keep(get[string](o, "description", "a string", nil), &info.Description)
	if info.Version != "" && !semanticVersion.MatchString(info.Version) {
		o.reject("version", "a semantic version such as 1.0.0")
	}
	if data, err := json.Marshal(info); err != nil || len(data) > maxMaintenanceInfo {
		plan.reject("maintenance_info", "at most 2000 characters of JSON")
	}
	o.close()
	return info
}

// WithVersions returns the catalog with the maintenance_info of dedicated plans: the version that their servers are to
// have. versionOf returns it, or false where there is no choice; then maintenance_info is that of the file.
func (c *Catalog) WithVersions(versionOf func(plan.Plan) (launcher.Version, bool, error)) (*Catalog, error) {
	with := &Catalog{offerings: slices.Clone(c.offerings), plans: slices.Clone(c.plans), limits: c.limits}
	for n := range with.offerings {
		with.offerings[n].Plans = slices.Clone(with.offerings[n].Plans)
	}
	for n := range with.plans {
		p := &with.plans[n]
		if p.Kind != plan.Dedicated {
			continue
		}
		v, found, err := versionOf(p.Plan)
		if err != nil {
			return nil, fmt.Errorf("plan %s: %w", p.Name, err)
		}
		if found {
			p.Flavour, p.Version, p.MaintenanceVersion = v.Flavour, v.Version, v.Full()
			with.shown(p.ID).MaintenanceInfo = &domain.MaintenanceInfo{Version: v.Full(), Description: v.String()}
		}
	}
	return with, nil
}

// shown returns a plan as platforms see it.
func (c *Catalog) shown(planID string) *domain.ServicePlan {
	for _, s := range c.offerings {
		for n := range s.Plans {
			if s.Plans[n].ID == planID {
				return &s.Plans[n]
			}
		}
	}
	panic("plan " + planID + " has no offering")
}

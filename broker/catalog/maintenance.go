package catalog

import (
	"encoding/json"
	"regexp"

	"code.cloudfoundry.org/brokerapi/v13/domain"
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
	info.Description, _ = get[string](o, "description", "a string")
	if info.Version != "" && !semanticVersion.MatchString(info.Version) {
		o.reject("version", "a semantic version such as 1.0.0")
	}
	if data, err := json.Marshal(info); err != nil || len(data) > maxMaintenanceInfo {
		plan.reject("maintenance_info", "at most 2000 characters of JSON")
	}
	o.close()
	return info
}

package catalog

import (
	"slices"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// WithDashboardClient returns the catalog with the client that Cloud Controller creates at UAA for the dashboard. All
// instances have the same dashboard, and Cloud Controller requires a different client for each service offering, so
// only the first offering has it. A catalog without offerings does not change.
// https://docs.cloudfoundry.org/services/dashboard-sso.html#registering-dashboard-client
func (c *Catalog) WithDashboardClient(client domain.ServiceDashboardClient) *Catalog {
	with := &Catalog{offerings: slices.Clone(c.offerings), plans: c.plans}
	if len(with.offerings) > 0 {
		with.offerings[0].DashboardClient = &client
	}
	return with
}

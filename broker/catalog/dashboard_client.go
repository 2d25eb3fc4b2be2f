package catalog

import (
	"slices"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// WithDashboardClient returns the catalog with the client that Cloud Controller is to make at UAA for the dashboard.
// All instances have the same dashboard, and Cloud Controller wants every service offering's client to be another one:
// the first offering shows it. A catalog without offerings stays as it is.
// https://docs.cloudfoundry.org/services/dashboard-sso.html#registering-dashboard-client
func (c *Catalog) WithDashboardClient(client domain.ServiceDashboardClient) *Catalog {
	with := &Catalog{offerings: slices.Clone(c.offerings), plans: c.plans}
	if len(with.offerings) > 0 {
		with.offerings[0].DashboardClient = &client
	}
	return with
}

// Package catalog reads catalog.yml: the service offerings and plans that platforms see, how to create instances of
// each plan, and the JSON schemas of the parameters. It refuses a catalog that Cloud Controller would refuse, and
// reports the line of every mistake.
package catalog

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"code.cloudfoundry.org/brokerapi/v13/domain"

	"mysql-broker/provisioner/plan"
)

// The ids of a request are not in this catalog: a 400 for the platform.
var (
	ErrUnknownService = errors.New("service_id is not in the catalog")
	ErrUnknownPlan    = errors.New("plan_id is not a plan of this service offering")
)

// Catalog is a checked catalog.yml. It never changes, so requests can read it concurrently.
type Catalog struct {
	offerings []domain.Service
	plans     []entry
	limits    plan.Limits
}

// entry is the part of a plan that platforms do not see.
type entry struct {
	plan.Plan
	requestSchemas
}

// Load reads and checks the catalog at path. The error has one line for each problem, as Parse reports them.
func Load(path string) (*Catalog, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the catalog: %w", err)
	}
	return Parse(path, data)
}

// Parse reads and checks a catalog. The error has one line "name:LINE: sentence" for every problem, in the order of the
// lines.
func Parse(name string, data []byte) (*Catalog, error) {
	found := &problems{}
	c := &Catalog{}
	if root := parseYAML(data, found); root != nil {
		c.read(root, found)
	}
	if err := found.err(name); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Catalog) read(root *node, found *problems) {
	top, ok := asObject(root, "the catalog", found)
	if !ok {
		return
	}
	c.limits = readLimits(top)
	taken := identities{map[string]int{}, map[string]int{}, map[string]int{}}
	for _, offering := range top.objects("services", "the service offering") {
		service, plans := readOffering(offering, taken)
		c.offerings = append(c.offerings, service)
		c.plans = append(c.plans, plans...)
	}
	top.close()
}

// Services returns the catalog as platforms see it, in the order of the file. It is shared: do not change it.
func (c *Catalog) Services() []domain.Service { return c.offerings }

// Plans returns the broker's part of every plan, in the order of the file.
func (c *Catalog) Plans() plan.Set {
	made := make(plan.Set, len(c.plans))
	for i, p := range c.plans {
		made[i] = p.Plan
	}
	return made
}

// Limits are those on the instances of all plans together.
func (c *Catalog) Limits() plan.Limits { return c.limits }

// Plan returns the broker's part of a plan. The error is ErrUnknownService, or ErrUnknownPlan if the service offering
// has no such plan.
func (c *Catalog) Plan(serviceID, planID string) (plan.Plan, error) {
	if !slices.ContainsFunc(c.offerings, func(s domain.Service) bool { return s.ID == serviceID }) {
		return plan.Plan{}, ErrUnknownService
	}
	p, err := c.plan(planID)
	if err != nil || p.ServiceID != serviceID {
		return plan.Plan{}, ErrUnknownPlan
	}
	return p.Plan, nil
}

func (c *Catalog) plan(id string) (entry, error) {
	for _, p := range c.plans {
		if p.ID == id {
			return p, nil
		}
	}
	return entry{}, ErrUnknownPlan
}

// Without returns the catalog without some plans, for a broker that has no servers for them. It also removes a service
// offering that has no plan left, because platforms refuse one.
func (c *Catalog) Without(unserved func(plan.Plan) bool) *Catalog {
	rest := &Catalog{offerings: []domain.Service{}, limits: c.limits}
	kept := map[string]bool{}
	for _, p := range c.plans {
		if !unserved(p.Plan) {
			rest.plans = append(rest.plans, p)
			kept[p.ID] = true
		}
	}
	for _, s := range c.offerings {
		s.Plans = slices.DeleteFunc(slices.Clone(s.Plans), func(p domain.ServicePlan) bool { return !kept[p.ID] })
		if len(s.Plans) > 0 {
			rest.offerings = append(rest.offerings, s)
		}
	}
	return rest
}

// WithDashboardClient returns the catalog with the client that Cloud Controller creates at UAA for the dashboard. All
// instances have the same dashboard, and Cloud Controller requires a different client for each service offering, so
// only the first offering has it. A catalog without offerings does not change.
// https://docs.cloudfoundry.org/services/dashboard-sso.html#registering-dashboard-client
func (c *Catalog) WithDashboardClient(client domain.ServiceDashboardClient) *Catalog {
	with := &Catalog{offerings: slices.Clone(c.offerings), plans: c.plans, limits: c.limits}
	if len(with.offerings) > 0 {
		with.offerings[0].DashboardClient = &client
	}
	return with
}

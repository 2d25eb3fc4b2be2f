package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

var (
	limitDesc = desc("mysql_broker_instance_limit", "Service instances that there may be of the plan, or of all plans if "+
		"plan is empty. Missing without a limit.", "plan")
	organizationDesc = desc("mysql_broker_organization_instances", "Service instances of the plan, or of all plans if "+
		"plan is empty, of the organization that has the most. Only for limits of organizations. If counting takes longer "+
		"than 0.1 s, the figure is up to a minute old.", "plan")
	organizationLimitDesc = desc("mysql_broker_organization_instance_limit", "Service instances of the plan, or of all "+
		"plans if plan is empty, that an organization may have. Missing without a limit.", "plan")
)

// collectLimits exports the limits, and how near organizations are to theirs.
func (c *stateCollector) collectLimits(ch chan<- prometheus.Metric) {
	limits := map[string]plan.Limits{"": c.limits} // by the plan's id, "" for all
	for _, p := range c.plans {
		limits[p.ID] = p.Limits
	}
	ofOrganizations := false
	for id, l := range limits {
		if l.Instances > 0 {
			gauge(ch, limitDesc, float64(l.Instances), planLabel(c.names, id))
		}
		ofOrganizations = ofOrganizations || l.PerOrganization > 0
	}
	if !ofOrganizations {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := c.organizations.counts(ctx)
	if err != nil {
		c.log.Warn("could not count the instances of organizations for /metrics", "error", err)
	}
	most := store.MostInOrganization(counts)
	for id, l := range limits {
		if l.PerOrganization == 0 {
			continue
		}
		gauge(ch, organizationLimitDesc, float64(l.PerOrganization), planLabel(c.names, id))
		if err == nil {
			gauge(ch, organizationDesc, float64(most[id]), planLabel(c.names, id))
		}
	}
}

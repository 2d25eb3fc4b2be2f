package operator

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/store"
)

// everything is what a line says that is about all plans or organizations.
const everything = "all"

func quotasCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "quotas",
		Short: "List how many service instances there are, and how many there may be",
		Long: `List how many service instances there are of all plans, of each plan and of each organization, and how many
there may be (the keys limits in the catalog). "all" stands for all plans or organizations; JSON lacks the field then.
"mysql-broker instances" shows how much data each instance has.

` + cli.JSONHelp + `
One has plan, plan_id, organization_guid, organization_name,
instances and limit.`,
		Example: `  mysql-broker quotas
  mysql-broker quotas --json | jq '.[] | select(.limit and .instances >= .limit)'`,
	}
	l := list[quotaDocument]{rows: (*console).quotas}
	return l.command(command)
}

// quotaDocument says how many instances there are in the output of --json.
type quotaDocument struct {
	Plan             string `json:"plan,omitempty"`
	PlanID           string `json:"plan_id,omitempty"`
	OrganizationGUID string `json:"organization_guid,omitempty"`
	OrganizationName string `json:"organization_name,omitempty"`
	Instances        int    `json:"instances"`
	Limit            int    `json:"limit,omitempty"`
}

func (d quotaDocument) cells() []cell {
	return []cell{{"plan", cmp.Or(d.Plan, everything)}, {"organization", cmp.Or(d.OrganizationGUID, everything)},
		{"name", d.OrganizationName}, {"instances", strconv.Itoa(d.Instances)}, {"limit", number(d.Limit)}}
}

// quotas lists all plans together and then each plan: first its instances, then those of each organization.
func (c *console) quotas(ctx context.Context) iter.Seq2[quotaDocument, error] {
	counts, err := c.store.Reports.OrganizationCounts(ctx)
	if err != nil {
		return these[quotaDocument](nil, fmt.Errorf("count the instances of organizations: %w", err))
	}
	limits := c.catalog.Limits()
	all := quotasOf(quotaDocument{Limit: limits.Instances}, limits.PerOrganization, counts)
	ids := make([]string, len(c.plans))
	for n, p := range c.plans {
		ids[n] = p.ID
	}
	for _, n := range counts { // removed plans
		if !slices.Contains(ids, n.PlanID) {
			ids = append(ids, n.PlanID)
		}
	}
	for _, id := range ids {
		p := c.plans.Get(id)
		of := slices.DeleteFunc(slices.Clone(counts), func(n store.OrganizationCount) bool { return n.PlanID != id })
		all = append(all, quotasOf(quotaDocument{Plan: p.Name, PlanID: id, Limit: p.Limits.Instances},
			p.Limits.PerOrganization, of)...)
	}
	return these(all, nil)
}

// quotasOf adds counts up, in total and for each organization.
func quotasOf(total quotaDocument, perOrganization int, counts []store.OrganizationCount) []quotaDocument {
	of := map[string]quotaDocument{}
	for _, n := range counts {
		total.Instances += n.Count
		d := of[n.OrganizationGUID]
		d.OrganizationGUID, d.OrganizationName = n.OrganizationGUID, cmp.Or(n.OrganizationName, d.OrganizationName)
		d.Plan, d.PlanID, d.Limit = total.Plan, total.PlanID, perOrganization
		d.Instances += n.Count
		of[n.OrganizationGUID] = d
	}
	byID := func(a, b quotaDocument) int { return cmp.Compare(a.OrganizationGUID, b.OrganizationGUID) }
	return append([]quotaDocument{total}, slices.SortedFunc(maps.Values(of), byID)...)
}

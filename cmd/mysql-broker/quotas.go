package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"mysql-broker/store"
)

// everything is what a line says that is about all plans or organizations.
const everything = "all"

func quotasCommand() *cobra.Command {
	var out output
	command := &cobra.Command{
		Use:   "quotas",
		Short: "List how many service instances there are, and how many there may be",
		Long: `List how many service instances there are of all plans, of each plan and of each organization, and how many
there may be (the keys limits in the catalog). "all" stands for all plans or organizations; JSON lacks the field then.
"mysql-broker instances" shows how much data each instance has.

` + jsonHelp + ` One has plan, plan_id, organization_guid, organization_name,
instances and limit.`,
		Example: `  mysql-broker quotas
  mysql-broker quotas --json | jq '.[] | select(.limit and .instances >= .limit)'`,
		Args: exactly(0),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConsole(cmd, func(ctx context.Context, c *console) error {
				all, err := c.quotas(ctx)
				l := out.listing(cmd, "plan", "organization", "name", "instances", "limit")
				for _, d := range all {
					if err == nil {
						err = l.add(d, cmp.Or(d.Plan, everything), cmp.Or(d.OrganizationGUID, everything), d.OrganizationName,
							strconv.Itoa(d.Instances), number(d.Limit))
					}
				}
				return l.end(err)
			})
		},
	}
	out.flags(command)
	return describe(command, recordedExit, recordedEnvironment)
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

// quotas lists all plans together and then each plan: first its instances, then those of each organization.
func (c *console) quotas(ctx context.Context) ([]quotaDocument, error) {
	counts, err := c.store.OrganizationCounts(ctx)
	if err != nil {
		return nil, fmt.Errorf("count the instances of organizations: %w", err)
	}
	limits := c.catalog.Limits()
	all := quotaGroup(quotaDocument{Limit: limits.Instances}, limits.PerOrganization, counts)
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
		all = append(all, quotaGroup(quotaDocument{Plan: p.Name, PlanID: id, Limit: p.Limits.Instances},
			p.Limits.PerOrganization, of)...)
	}
	return all, nil
}

// quotaGroup adds counts up, in total and for each organization.
func quotaGroup(total quotaDocument, perOrganization int, counts []store.OrganizationCount) []quotaDocument {
	of := map[string]quotaDocument{}
	for _, n := range counts {
		total.Instances += n.Count
		d := of[n.OrganizationGUID]
		d.OrganizationGUID, d.OrganizationName = n.OrganizationGUID, cmp.Or(n.OrganizationName, d.OrganizationName)
		d.Plan, d.PlanID, d.Limit = total.Plan, total.PlanID, perOrganization
		d.Instances += n.Count
		of[n.OrganizationGUID] = d
	}
	group := []quotaDocument{total}
	for _, d := range of {
		group = append(group, d)
	}
	slices.SortFunc(group[1:], func(a, b quotaDocument) int { return cmp.Compare(a.OrganizationGUID, b.OrganizationGUID) })
	return group
}

package dashboard

import (
	"slices"
	"testing"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// TestPlanRows adds up the instances of organizations, some of which have a plan that was removed.
func TestPlanRows(t *testing.T) {
	t.Parallel()
	few, many := plan.Limits{Instances: 3, PerOrganization: 2}, plan.Limits{Instances: 9}
	d := Dashboard{Config: Config{Plans: plan.Set{{ID: "1", Name: "small", Limits: few}, {ID: "2", Name: "large"}}, Limits: many}}
	got := d.planRows([]store.OrganizationCount{
		{PlanID: "1", OrganizationGUID: "a", Count: 1},
		{PlanID: "1", OrganizationGUID: "b", Count: 2},
		{PlanID: "removed", OrganizationGUID: "a", Count: 4},
	})
	want := []planRow{
		{ID: "1", Name: "small", Instances: 3, Most: 2, Limits: few},
		{ID: "2", Name: "large"},
		{Name: "all plans", Instances: 7, Most: 5, Limits: many},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v instead of %+v", got, want)
	}
}

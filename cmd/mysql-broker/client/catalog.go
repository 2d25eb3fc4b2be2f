package client

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
)

func (s *session) catalog(ctx context.Context, _ []string) error {
	if s.json {
		return s.printCatalog(ctx)
	}
	catalog, err := fetchCatalog[apiresponses.CatalogResponse](ctx, s.broker)
	if err != nil {
		return err
	}
	rows := [][]string{{"offering", "plan", "description"}}
	for _, offering := range catalog.Services {
		for _, plan := range offering.Plans {
			rows = append(rows, []string{offering.Name, plan.Name, plan.Description})
		}
	}
	return s.printTable(rows)
}

// printCatalog prints the broker's response without the secrets of dashboard clients, because people share lists of
// plans.
func (s *session) printCatalog(ctx context.Context) error {
	catalog, err := fetchCatalog[map[string]any](ctx, s.broker)
	if err != nil {
		return err
	}
	services, _ := catalog["services"].([]any)
	for _, service := range services {
		offering, _ := service.(map[string]any)
		client, _ := offering["dashboard_client"].(map[string]any)
		if _, ok := client["secret"]; ok {
			client["secret"] = "(not shown)"
		}
	}
	return s.printJSON(catalog)
}

// plan is a plan of the catalog, as stored with an instance.
type plan struct {
	Offering    string                  `json:"offering"`
	Name        string                  `json:"name"`
	ServiceID   string                  `json:"service_id"`
	ID          string                  `json:"id"`
	Maintenance *domain.MaintenanceInfo `json:"maintenance_info,omitempty"`
}

func fetchCatalog[T any](ctx context.Context, b *broker) (c T, err error) {
	a, err := b.send(ctx, http.MethodGet, "/v2/catalog", nil, nil)
	if err != nil {
		return c, err
	}
	return c, a.decode(&c)
}

// findPlan finds a plan of the catalog by its name, or by OFFERING/PLAN.
func (s *session) findPlan(ctx context.Context, name string) (plan, error) {
	catalog, err := fetchCatalog[apiresponses.CatalogResponse](ctx, s.broker)
	if err != nil {
		return plan{}, err
	}
	var all, found []string
	var match plan
	for _, offering := range catalog.Services {
		for _, p := range offering.Plans {
			full := offering.Name + "/" + p.Name
			all = append(all, p.Name)
			if name == p.Name || name == full {
				found = append(found, full)
				match = plan{offering.Name, p.Name, offering.ID, p.ID, p.MaintenanceInfo}
			}
		}
	}
	switch len(found) {
	case 0:
		return plan{}, fmt.Errorf("there is no plan %s; there are: %s", name, strings.Join(all, ", "))
	case 1:
		return match, nil
	}
	return plan{}, fmt.Errorf("more than one offering has a plan %s: name one of %s", name, strings.Join(found, ", "))
}

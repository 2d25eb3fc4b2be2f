package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

func TestDashboardClient(t *testing.T) {
	t.Parallel()
	plain := shipped(t)
	with := plain.WithDashboardClient(domain.ServiceDashboardClient{ID: "mysql", Secret: "hush",
		RedirectURI: "https://broker.example.com/dashboard/sign-in/callback"})
	raw, err := json.Marshal(with.Services())
	if err != nil {
		t.Fatal(err)
	}
	want := `"dashboard_client":{"id":"mysql","secret":"hush","redirect_uri":` +
		`"https://broker.example.com/dashboard/sign-in/callback"}`
	if strings.Count(string(raw), want) != 1 {
		t.Errorf("the catalog lacks %s: %s", want, raw)
	}
	if len(with.Plans()) != len(plain.Plans()) {
		t.Errorf("%d plans became %d", len(plain.Plans()), len(with.Plans()))
	}
	for _, s := range plain.Services() {
		if s.DashboardClient != nil {
			t.Errorf("the catalog that was not changed has %+v", s.DashboardClient)
		}
	}
}

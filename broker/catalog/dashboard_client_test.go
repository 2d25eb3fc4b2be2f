package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDashboardClient(t *testing.T) {
	t.Parallel()
	plain := shipped(t)
	with := plain.WithDashboardClient(domain.ServiceDashboardClient{ID: "mysql", Secret: "hush",
		RedirectURI: "https://broker.example.com/dashboard/sign-in/callback"})
	raw, err := json.Marshal(with.Services())
	require.NoError(t, err)
	want := `"dashboard_client":{"id":"mysql","secret":"hush","redirect_uri":` +
		`"https://broker.example.com/dashboard/sign-in/callback"}`
	assert.Equal(t, 1, strings.Count(string(raw), want), "the catalog lacks %s: %s", want, raw)
	if len(with.Plans()) != len(plain.Plans()) {
		t.Errorf("%d plans became %d", len(plain.Plans()), len(with.Plans()))
	}
	for _, s := range plain.Services() {
		assert.Nil(t, s.DashboardClient, "the catalog that was not changed has %+v", s.DashboardClient)
	}
}

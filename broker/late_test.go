package broker_test

import (
	"errors"
	"testing"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
	"code.cloudfoundry.org/brokerapi/v13/domain/apiresponses"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/broker/httpapi"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// After the platform has read that an instance does not exist, no older request creates it: neither one that a broker
// had received before, nor one that it reads when the client has left, and which may have waited in the network since.
func TestProvisionThatComesTooLate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	offered, err := catalog.Load(env["CATALOG"])
	require.NoError(t, err)
	p := offered.Plans()[0]
	site := inprocess.New(t, s, env, offered.Plans())
	api := broker.New(offered, site.Broker, func(string) string { return "" }, false)
	for _, deleted := range []bool{false, true} {
		id := uuid.NewString()
		provision := func(from httpapi.Client) error {
			_, err := api.Provision(t.Context(), id, domain.ProvisionDetails{ServiceID: p.ServiceID, PlanID: p.ID,
				OrganizationGUID: "org", SpaceGUID: "space"}, false, from)
			return err
		}
		stays := func() bool { return false }
		early := httpapi.Client{Received: time.Now(), Left: stays}
		if deleted { // the late request repeats one that was carried out
			site.Must(provision(early))
		}
		_, err := api.Deprovision(t.Context(), id, domain.DeprovisionDetails{ServiceID: p.ServiceID, PlanID: p.ID}, false)
		gone := errors.Is(err, apiresponses.ErrInstanceDoesNotExist)
		assert.False(t, gone == deleted || !gone && err != nil, "the deletion: %v", err)
		for what, late := range map[string]httpapi.Client{"received before": early,
			"read after its client has left": {Received: time.Now(), Left: func() bool { return true }}} {
			refused, ok := errors.AsType[*apiresponses.FailureResponse](provision(late))
			assert.True(t, ok && refused.ErrorResponse().(apiresponses.ErrorResponse).Error == "ConcurrencyError",
				"deleted %t, %s: %v", deleted, what, refused)
			_, err = site.Store.Instances.Get(t.Context(), id)
			assert.ErrorIs(t, err, store.ErrNotFound, "deleted %t, %s, there is an instance", deleted, what)
		}
		site.Must(provision(httpapi.Client{Received: time.Now(), Left: stays}))
	}
}

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
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// start returns the broker of a site, and a plan of it.
func start(t *testing.T) (*inprocess.Site, *broker.Broker, plan.Plan) {
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	offered, err := catalog.Load(env["CATALOG"])
	require.NoError(t, err)
	site := inprocess.New(t, s, env, offered.Plans())
	return site, broker.New(offered, site.Broker, func(string) string { return "" }, false), offered.Plans()[0]
}

// After the platform has read that an instance does not exist, no older request creates it: neither one that a broker
// had received before, nor one that it reads when the client has left, and which may have waited in the network since.
func TestProvisionThatComesTooLate(t *testing.T) {
	t.Parallel()
	site, api, p := start(t)
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

// Names that a tenant has given, and what a server says of them, may hold what a terminal obeys.
func TestDescriptionOfAnOperationIsVisible(t *testing.T) {
	t.Parallel()
	site, api, p := start(t)
	i := site.Provision(p)
	testdrive.OpenTasks(t, site.Env).Exec(t, "UPDATE task SET description = $1", "The view \x1b[2J\u009b\u202e is invalid.")
	last, err := api.LastOperation(t.Context(), i.ID, domain.PollDetails{})
	require.NoError(t, err)
	assert.Equal(t, `The view \u001b[2J\u009b\u202e is invalid.`, last.Description)
}

package provisioner_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/broker/catalog"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A dedicated server is destroyed before its instance's deletion has ended. Requests that arrive in between read that the
// instance is busy.
func TestRequestsAfterAServerIsDestroyed(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	env := testdrive.Environment(t, server)
	offered, err := catalog.Load(env["CATALOG"])
	require.NoError(t, err)
	site := inprocess.New(t, server, env, offered.Plans())
	_, largeID := testdrive.Plan(t, "dedicated-large")
	_, smallID := testdrive.Plan(t, "dedicated-small")
	large, small := offered.Plans().Get(largeID), offered.Plans().Get(smallID)
	destroyed := func(id string) {
		site.InTx(func(tx *store.Tx) error {
			err := tx.InsertInstance(store.Instance{ID: id, ServiceID: large.ServiceID, PlanID: large.ID, AdminPassword: "secret",
				Location: store.DedicatedLocation("process", "d_"+id), Database: "db_" + id})
			tx.SetInstanceState(id, store.Ready)
			return err
		})
		site.InTx(func(tx *store.Tx) error {
			err := tx.InsertBinding(store.Binding{InstanceID: id, ID: "b", Account: "u_" + id, Password: "secret"})
			tx.SetBindingState(id, "b", store.Ready)
			return err
		})
	}
	destroyed("deleted")
	(&scene{Site: *site, instance: site.Instance("deleted")}).busy(store.Deprovision, "")
	_, err = site.Broker.Binding(t.Context(), "deleted", "b")
	assert.Equal(t, "b", answer(err), "fetch the binding")
	_, _, err = site.Broker.Bind(t.Context(), bindings.BindRequest{InstanceID: "deleted", BindingID: "another",
		ServiceID: large.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
	assert.Equal(t, "b", answer(err), "bind")
	_, err = site.Broker.Update(t.Context(), engine.UpdateRequest{InstanceID: "deleted", ServiceID: large.ServiceID,
		Plan: small, AcceptsIncomplete: true})
	assert.Equal(t, "b", answer(err), "change the plan")

	destroyed("lost")
	_, err = site.Broker.Binding(t.Context(), "lost", "b")
	assert.ErrorIs(t, err, launcher.ErrNotFound, "nobody deletes the instance")
}

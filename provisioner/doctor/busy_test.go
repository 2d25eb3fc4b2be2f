package doctor_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Examinations during operations find nothing, because nothing is wrong. No other test uses the servers.
func TestOperationsUnderWayAreNoFindings(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		const developers, examinations = 4, 8
		var working sync.WaitGroup
		var enough atomic.Bool
		var rounds atomic.Int32
		defer working.Wait()
		defer enough.Store(true)
		for range developers {
			working.Go(func() {
				for !enough.Load() {
					if err := f.comeAndGo(); err != nil {
						f.Error(err)
						return
					}
					rounds.Add(1)
				}
			})
		}
		examine := func() {
			r, err := f.doctor.Examine(f.Context())
			f.Must(err)
			for _, finding := range r.Findings {
				f.Errorf("%+v", finding)
			}
		}
		for done := 0; done < examinations || rounds.Load() < developers && !f.Failed(); done++ {
			examine()
		}
		enough.Store(true)
		working.Wait()
		examine()
		f.Logf("at least %d examinations during %d operations", examinations, 5*rounds.Load())
	})
}

// comeAndGo provisions an instance, creates two bindings, deletes one, and deletes the instance with the other.
func (f *fixture) comeAndGo() error {
	ctx, id := f.Context(), uuid.NewString()
	if _, err := f.Broker.Provision(ctx, engine.ProvisionRequest{InstanceID: id, Plan: sharedPlan}); err != nil {
		return err
	}
	for _, binding := range []string{"first", "second"} {
		_, _, err := f.Broker.Bind(ctx, bindings.BindRequest{InstanceID: id, BindingID: binding,
			ServiceID: sharedPlan.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
		if err != nil {
			return err
		}
	}
	if err := f.Broker.Unbind(ctx, bindings.UnbindRequest{InstanceID: id, BindingID: "first"}); err != nil {
		return err
	}
	_, err := f.Broker.Deprovision(ctx, instances.DeprovisionRequest{InstanceID: id, Plan: sharedPlan})
	return err
}

package doctor_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// Examinations while everything changes find nothing, since nothing is wrong. No other test uses the servers.
func TestOperationsUnderWayAreNoFindings(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		const developers, rounds = 4, 8
		var working sync.WaitGroup
		for range developers {
			working.Go(func() {
				for range rounds {
					if err := f.comeAndGo(); err != nil {
						f.Error(err)
						return
					}
				}
			})
		}
		var ended atomic.Bool
		go func() {
			working.Wait()
			ended.Store(true)
		}()
		examinations := 0
		for last := false; !last; examinations++ {
			last = ended.Load()
			r, err := f.doctor.Examine(f.Context())
			f.must(err)
			for _, finding := range r.Findings {
				f.Errorf("%+v", finding)
			}
		}
		if examinations < rounds {
			f.Errorf("only %d examinations during the operations", examinations)
		}
		f.Logf("%d examinations during %d operations", examinations, developers*rounds*5)
	})
}

// comeAndGo provisions, binds twice, unbinds one and deprovisions with the other.
func (f *fixture) comeAndGo() error {
	ctx, id := f.Context(), uuid.NewString()
	if _, err := f.broker.Provision(ctx, provisioner.ProvisionRequest{InstanceID: id, Plan: sharedPlan}); err != nil {
		return err
	}
	for _, binding := range []string{"first", "second"} {
		_, _, err := f.broker.Bind(ctx, provisioner.BindRequest{InstanceID: id, BindingID: binding,
			ServiceID: sharedPlan.ServiceID, Parameters: provisioner.BindingParameters{Role: mysqladmin.ReadWrite}})
		if err != nil {
			return err
		}
	}
	if err := f.broker.Unbind(ctx, provisioner.UnbindRequest{InstanceID: id, BindingID: "first"}); err != nil {
		return err
	}
	_, err := f.broker.Deprovision(ctx, provisioner.DeprovisionRequest{InstanceID: id, Plan: sharedPlan})
	return err
}

package doctor_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/mysqladmin"
)

// Examinations while everything changes find nothing, since nothing is wrong.
func TestOperationsUnderWayAreNoFindings(t *testing.T) {
	eachServer(t, func(f *fixture) {
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
			for _, finding := range f.find(f.doctor) {
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
		if _, _, err := f.broker.Bind(ctx, provisioner.BindRequest{InstanceID: id, BindingID: binding,
			ServiceID: sharedPlan.ServiceID, Parameters: provisioner.BindingParameters{Role: mysqladmin.ReadWrite}}); err != nil {
			return err
		}
	}
	if err := f.broker.Unbind(ctx, provisioner.UnbindRequest{InstanceID: id, BindingID: "first"}); err != nil {
		return err
	}
	_, err := f.broker.Deprovision(ctx, provisioner.DeprovisionRequest{InstanceID: id, Plan: sharedPlan})
	return err
}

package httpapi

import (
	"context"
	"sync"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// received is one call that reached the broker.
type received struct {
	method     string
	instanceID string
	bindingID  string
	details    any
	async      bool
	info       requestInfo
	from       Client // of a provision
}

// recordingBroker stands in for the broker: the HTTP layer is the unit under test here. Every method records what it
// got, then does as act says, and succeeds if there is no act.
type recordingBroker struct {
	act     func(ctx context.Context) error
	binding domain.Binding
	// What brokerapi has no place for.
	retryAfter  time.Duration
	maintenance *domain.MaintenanceInfo
	rotatable   string // a plan's id

	mu    sync.Mutex
	calls []received
}

func (b *recordingBroker) record(ctx context.Context, call received) error {
	call.info = callFrom(ctx).info
	b.mu.Lock()
	b.calls = append(b.calls, call)
	b.mu.Unlock()
	if b.act == nil {
		return nil
	}
	return b.act(ctx)
}

// received returns the calls since it was called last, without those for the catalog, which the library makes itself.
func (b *recordingBroker) received() []received {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := b.calls
	b.calls = nil
	return calls
}

func (b *recordingBroker) Services(context.Context) ([]domain.Service, error) {
	return []domain.Service{{
		ID: "s", Name: "mysql", Plans: []domain.ServicePlan{{ID: "p", Name: "small"}},
	}}, nil
}

func (b *recordingBroker) Provision(ctx context.Context, id string, d domain.ProvisionDetails, async bool,
	from Client) (domain.ProvisionedServiceSpec, error) {
	return domain.ProvisionedServiceSpec{IsAsync: async, OperationData: "task_1"},
		b.record(ctx, received{method: "Provision", instanceID: id, details: d, async: async, from: from})
}

func (b *recordingBroker) Deprovision(ctx context.Context, id string, d domain.DeprovisionDetails,
	async bool) (domain.DeprovisionServiceSpec, error) {
	return domain.DeprovisionServiceSpec{},
		b.record(ctx, received{method: "Deprovision", instanceID: id, details: d, async: async})
}

func (b *recordingBroker) GetInstance(ctx context.Context, id string, d domain.FetchInstanceDetails) (Instance, error) {
	return Instance{domain.GetInstanceDetailsSpec{ServiceID: "s", PlanID: "p"}, b.maintenance},
		b.record(ctx, received{method: "GetInstance", instanceID: id, details: d})
}

func (b *recordingBroker) Update(ctx context.Context, id string, d domain.UpdateDetails,
	async bool) (domain.UpdateServiceSpec, error) {
	return domain.UpdateServiceSpec{},
		b.record(ctx, received{method: "Update", instanceID: id, details: d, async: async})
}

func (b *recordingBroker) LastOperation(ctx context.Context, id string, d domain.PollDetails) (LastOperation, error) {
	return LastOperation{LastOperation: domain.LastOperation{State: domain.InProgress}, RetryAfter: b.retryAfter},
		b.record(ctx, received{method: "LastOperation", instanceID: id, details: d})
}

func (b *recordingBroker) Rotatable(planID string) bool { return planID == b.rotatable }

func (b *recordingBroker) Bind(ctx context.Context, id, bindingID string, d BindDetails,
	async bool) (domain.Binding, error) {
	return b.binding,
		b.record(ctx, received{method: "Bind", instanceID: id, bindingID: bindingID, details: d, async: async})
}

func (b *recordingBroker) Unbind(ctx context.Context, id, bindingID string, d domain.UnbindDetails,
	async bool) (domain.UnbindSpec, error) {
	return domain.UnbindSpec{},
		b.record(ctx, received{method: "Unbind", instanceID: id, bindingID: bindingID, details: d, async: async})
}

func (b *recordingBroker) GetBinding(ctx context.Context, id, bindingID string,
	d domain.FetchBindingDetails) (domain.GetBindingSpec, error) {
	return domain.GetBindingSpec{},
		b.record(ctx, received{method: "GetBinding", instanceID: id, bindingID: bindingID, details: d})
}

func (b *recordingBroker) LastBindingOperation(ctx context.Context, id, bindingID string,
	d domain.PollDetails) (LastOperation, error) {
	return LastOperation{LastOperation: domain.LastOperation{State: domain.Succeeded}, RetryAfter: b.retryAfter},
		b.record(ctx, received{method: "LastBindingOperation", instanceID: id, bindingID: bindingID, details: d})
}

package httpapi

import (
	"context"
	"log/slog"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// adapter implements brokerapi's interface with a Broker. Values for which brokerapi has no field come from the
// request's call, and are stored there for respondInJSON. clientError converts errors for clients.
type adapter struct {
	broker Broker
	log    *slog.Logger
}

var _ domain.ServiceBroker = adapter{}

func (a adapter) Services(ctx context.Context) ([]domain.Service, error) {
	services, err := a.broker.Services(ctx)
	return services, a.clientError(ctx, err)
}

func (a adapter) Provision(ctx context.Context, instanceID string, details domain.ProvisionDetails,
	asyncAllowed bool) (domain.ProvisionedServiceSpec, error) {
	c := callFrom(ctx)
	spec, err := a.broker.Provision(ctx, instanceID, details, asyncAllowed, Client{Received: c.since, Left: c.left})
	return spec, a.clientError(ctx, err)
}

func (a adapter) Update(ctx context.Context, instanceID string, details domain.UpdateDetails,
	asyncAllowed bool) (domain.UpdateServiceSpec, error) {
	spec, err := a.broker.Update(ctx, instanceID, details, asyncAllowed)
	return spec, a.clientError(ctx, err)
}

func (a adapter) Deprovision(ctx context.Context, instanceID string, details domain.DeprovisionDetails,
	asyncAllowed bool) (domain.DeprovisionServiceSpec, error) {
	spec, err := a.broker.Deprovision(ctx, instanceID, details, asyncAllowed)
	return spec, a.clientError(ctx, err)
}

func (a adapter) GetInstance(ctx context.Context, instanceID string,
	details domain.FetchInstanceDetails) (domain.GetInstanceDetailsSpec, error) {
	i, err := a.broker.GetInstance(ctx, instanceID, details)
	callFrom(ctx).maintenance = i.MaintenanceInfo
	return i.GetInstanceDetailsSpec, a.clientError(ctx, err)
}

func (a adapter) LastOperation(ctx context.Context, instanceID string,
	details domain.PollDetails) (domain.LastOperation, error) {
	operation, err := a.broker.LastOperation(ctx, instanceID, details)
	callFrom(ctx).retryAfter = operation.RetryAfter
	return operation.LastOperation, a.clientError(ctx, err)
}

func (a adapter) Bind(ctx context.Context, instanceID, bindingID string, details domain.BindDetails,
	asyncAllowed bool) (domain.Binding, error) {
	binding, err := a.broker.Bind(ctx, instanceID, bindingID, rotated(ctx, details), asyncAllowed)
	return binding, a.clientError(ctx, err)
}

func (a adapter) Unbind(ctx context.Context, instanceID, bindingID string, details domain.UnbindDetails,
	asyncAllowed bool) (domain.UnbindSpec, error) {
	spec, err := a.broker.Unbind(ctx, instanceID, bindingID, details, asyncAllowed)
	return spec, a.clientError(ctx, err)
}

func (a adapter) GetBinding(ctx context.Context, instanceID, bindingID string,
	details domain.FetchBindingDetails) (domain.GetBindingSpec, error) {
	spec, err := a.broker.GetBinding(ctx, instanceID, bindingID, details)
	return spec, a.clientError(ctx, err)
}

func (a adapter) LastBindingOperation(ctx context.Context, instanceID, bindingID string,
	details domain.PollDetails) (domain.LastOperation, error) {
	operation, err := a.broker.LastBindingOperation(ctx, instanceID, bindingID, details)
	callFrom(ctx).retryAfter = operation.RetryAfter
	return operation.LastOperation, a.clientError(ctx, err)
}

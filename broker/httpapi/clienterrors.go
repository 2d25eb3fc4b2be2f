package httpapi

import (
	"context"
	"log/slog"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// clientErrors is a broker whose errors are fit for a client to see; see clientError.
type clientErrors struct {
	next domain.ServiceBroker
	log  *slog.Logger
}

func (b clientErrors) Services(ctx context.Context) ([]domain.Service, error) {
	services, err := b.next.Services(ctx)
	return services, b.clientError(ctx, err)
}

func (b clientErrors) Provision(
	ctx context.Context, instanceID string, details domain.ProvisionDetails, asyncAllowed bool,
) (domain.ProvisionedServiceSpec, error) {
	spec, err := b.next.Provision(ctx, instanceID, details, asyncAllowed)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) Deprovision(
	ctx context.Context, instanceID string, details domain.DeprovisionDetails, asyncAllowed bool,
) (domain.DeprovisionServiceSpec, error) {
	spec, err := b.next.Deprovision(ctx, instanceID, details, asyncAllowed)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) GetInstance(
	ctx context.Context, instanceID string, details domain.FetchInstanceDetails,
) (domain.GetInstanceDetailsSpec, error) {
	spec, err := b.next.GetInstance(ctx, instanceID, details)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) Update(
	ctx context.Context, instanceID string, details domain.UpdateDetails, asyncAllowed bool,
) (domain.UpdateServiceSpec, error) {
	spec, err := b.next.Update(ctx, instanceID, details, asyncAllowed)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) LastOperation(
	ctx context.Context, instanceID string, details domain.PollDetails,
) (domain.LastOperation, error) {
	operation, err := b.next.LastOperation(ctx, instanceID, details)
	return operation, b.clientError(ctx, err)
}

func (b clientErrors) Bind(
	ctx context.Context, instanceID, bindingID string, details domain.BindDetails, asyncAllowed bool,
) (domain.Binding, error) {
	binding, err := b.next.Bind(ctx, instanceID, bindingID, details, asyncAllowed)
	return binding, b.clientError(ctx, err)
}

func (b clientErrors) Unbind(
	ctx context.Context, instanceID, bindingID string, details domain.UnbindDetails, asyncAllowed bool,
) (domain.UnbindSpec, error) {
	spec, err := b.next.Unbind(ctx, instanceID, bindingID, details, asyncAllowed)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) GetBinding(
	ctx context.Context, instanceID, bindingID string, details domain.FetchBindingDetails,
) (domain.GetBindingSpec, error) {
	spec, err := b.next.GetBinding(ctx, instanceID, bindingID, details)
	return spec, b.clientError(ctx, err)
}

func (b clientErrors) LastBindingOperation(
	ctx context.Context, instanceID, bindingID string, details domain.PollDetails,
) (domain.LastOperation, error) {
	operation, err := b.next.LastBindingOperation(ctx, instanceID, bindingID, details)
	return operation, b.clientError(ctx, err)
}

package httpapi

import (
	"context"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// Broker is brokerapi's domain.ServiceBroker, but that some methods take or return what brokerapi has no place for.
type Broker interface {
	Services(ctx context.Context) ([]domain.Service, error)

	Provision(ctx context.Context, instanceID string, details domain.ProvisionDetails, asyncAllowed bool,
		from Client) (domain.ProvisionedServiceSpec, error)
	Update(ctx context.Context, instanceID string, details domain.UpdateDetails,
		asyncAllowed bool) (domain.UpdateServiceSpec, error)
	Deprovision(ctx context.Context, instanceID string, details domain.DeprovisionDetails,
		asyncAllowed bool) (domain.DeprovisionServiceSpec, error)
	GetInstance(ctx context.Context, instanceID string, details domain.FetchInstanceDetails) (Instance, error)
	LastOperation(ctx context.Context, instanceID string, details domain.PollDetails) (LastOperation, error)

	Bind(ctx context.Context, instanceID, bindingID string, details domain.BindDetails,
		asyncAllowed bool) (domain.Binding, error)
	Unbind(ctx context.Context, instanceID, bindingID string, details domain.UnbindDetails,
		asyncAllowed bool) (domain.UnbindSpec, error)
	GetBinding(ctx context.Context, instanceID, bindingID string,
		details domain.FetchBindingDetails) (domain.GetBindingSpec, error)
	LastBindingOperation(ctx context.Context, instanceID, bindingID string,
		details domain.PollDetails) (LastOperation, error)
}

// Client is the client of a request.
type Client struct {
	// Received is when the request came in: see arrival.
	Received time.Time
	// Left tells whether the client has closed the connection, or the half of it that it sends on. The request goes on
	// all the same: its context does not end.
	Left func() bool
}

// Instance is a service instance that is fetched.
type Instance struct {
	domain.GetInstanceDetailsSpec
	MaintenanceInfo *domain.MaintenanceInfo // nil where the instance has none. OSB API 2.16
}

// LastOperation is how an operation does.
type LastOperation struct {
	domain.LastOperation
	// RetryAfter is when to ask again, rounded up to whole seconds; 0 leaves that to the platform. OSB API 2.15, "Polling
	// Last Operation"; Cloud Controller waits for at least 60 s whatever it says.
	RetryAfter time.Duration
}

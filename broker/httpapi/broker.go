package httpapi

import (
	"context"
	"time"

	"code.cloudfoundry.org/brokerapi/v13/domain"
)

// Broker is brokerapi's domain.ServiceBroker, except that some methods take or return values for which brokerapi has no
// field.
type Broker interface {
	Services(ctx context.Context) ([]domain.Service, error)
	// Rotatable reports whether a plan has binding_rotatable. OSB API 2.17
	Rotatable(planID string) bool

	Provision(ctx context.Context, instanceID string, details domain.ProvisionDetails, asyncAllowed bool,
		from Client) (domain.ProvisionedServiceSpec, error)
	Update(ctx context.Context, instanceID string, details domain.UpdateDetails,
		asyncAllowed bool) (domain.UpdateServiceSpec, error)
	Deprovision(ctx context.Context, instanceID string, details domain.DeprovisionDetails,
		asyncAllowed bool) (domain.DeprovisionServiceSpec, error)
	GetInstance(ctx context.Context, instanceID string, details domain.FetchInstanceDetails) (Instance, error)
	LastOperation(ctx context.Context, instanceID string, details domain.PollDetails) (LastOperation, error)

	Bind(ctx context.Context, instanceID, bindingID string, details BindDetails,
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
	// Received is the time at which the headers of the request were read.
	Received time.Time
	// Left reports whether the client has closed the connection, or its sending half. The request continues: its context
	// does not end.
	Left func() bool
}

// Instance is a fetched service instance.
type Instance struct {
	domain.GetInstanceDetailsSpec
	MaintenanceInfo *domain.MaintenanceInfo // nil if the instance has none. OSB API 2.16
}

// BindDetails is the body of a bind request. With a Predecessor, it need not name the service offering and the plan.
type BindDetails struct {
	domain.BindDetails
	Predecessor string // the id of the binding that the new one succeeds; "" for none. OSB API 2.17
}

// LastOperation is the state of an operation.
type LastOperation struct {
	domain.LastOperation
	// RetryAfter is the time until the next poll, rounded up to whole seconds; 0 leaves it to the platform. OSB API 2.15,
	// "Polling Last Operation"; Cloud Controller always waits at least 60 s.
	RetryAfter time.Duration
}

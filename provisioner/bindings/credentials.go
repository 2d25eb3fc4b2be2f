package bindings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Credentials are what an application needs to use an instance.
type Credentials struct {
	fleet.Address
	Database   string
	Account    string
	Password   string
	TLSOnly    bool            // a login without TLS is refused, or cannot work
	Parameters json.RawMessage // of the binding's request
	Reference  string          // the name under which CredHub has all of this, "" if it does not

	// When the account ends by itself, and when it should be replaced; zero if it does not end.
	ExpiresAt, RenewBefore time.Time
}

func (bs *Bindings) credentials(ctx context.Context, i store.Instance, b store.Binding) (Credentials, error) {
	address, err := bs.Fleet.Address(ctx, i)
	if err != nil {
		return Credentials{}, bs.UnlessDeleted(ctx, i.ID, fmt.Errorf("find where the instance is: %w", err))
	}
	tlsOnly := plan.TLS(b.TLS) == plan.TLSRequired || bs.Fleet.TLSOnly(i.Location)
	c := Credentials{Address: address, Database: i.Database, Account: b.Account, Password: b.Password,
		Parameters: b.Parameters, TLSOnly: tlsOnly, Reference: b.CredHubName}
	if b.ExpiresAt != nil {
		c.ExpiresAt, c.RenewBefore = *b.ExpiresAt, renewal(b)
	}
	return c, nil
}

// Binding reads the credentials of a binding. A binding is NotFound while it is being created or deleted. OSB API,
// "Fetching a Service Binding".
func (bs *Bindings) Binding(ctx context.Context, instanceID, id string) (Credentials, error) {
	b, err := bs.Store.Bindings.Get(ctx, instanceID, id)
	if errors.Is(err, store.ErrNotFound) {
		expired, err := bs.Store.Bindings.HasExpired(ctx, instanceID, id)
		if err != nil {
			return Credentials{}, fmt.Errorf("find an expired binding: %w", err)
		}
		if expired {
			return Credentials{}, engine.Refuse(engine.NotFound,
				"The service binding with this id has expired. Delete it, and create another one.")
		}
	}
	if errors.Is(err, store.ErrNotFound) || err == nil && b.State != store.Ready {
		return Credentials{}, engine.Refuse(engine.NotFound, "There is no service binding with this id.")
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read the binding: %w", err)
	}
	i, err := bs.Store.Instances.Get(ctx, instanceID)
	if errors.Is(err, store.ErrNotFound) { // the instance was deleted since, with its bindings
		return Credentials{}, engine.Refuse(engine.NotFound, "There is no service binding with this id.")
	}
	if err != nil {
		return Credentials{}, fmt.Errorf("read the binding's instance: %w", err)
	}
	return bs.credentials(ctx, i, b)
}

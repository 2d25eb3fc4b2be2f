package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
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

func (p *Provisioner) credentials(ctx context.Context, i store.Instance, b store.Binding) (Credentials, error) {
	address, err := p.fleet.Address(ctx, i)
	if err != nil {
		return Credentials{}, p.unlessDeleted(ctx, i.ID, fmt.Errorf("find where the instance is: %w", err))
	}
	tlsOnly := plan.TLS(b.TLS) == plan.TLSRequired || p.fleet.TLSOnly(i.Location)
	c := Credentials{Address: address, Database: i.Database, Account: b.Account, Password: b.Password,
		Parameters: b.Parameters, TLSOnly: tlsOnly, Reference: b.CredHubName}
	if b.ExpiresAt != nil {
		c.ExpiresAt, c.RenewBefore = *b.ExpiresAt, renewal(b)
	}
	return c, nil
}

// unlessDeleted returns err, or an *Error for users if a dedicated server was not found because its instance is being
// deleted, or was deleted after it was read.
func (p *Provisioner) unlessDeleted(ctx context.Context, instanceID string, err error) error {
	if !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	latest, taskErr := p.store.LatestTask(ctx, instanceID, "", "")
	if taskErr == nil && latest.Kind == store.Deprovision && latest.State == store.InProgress {
		return errBusy
	}
	if _, readErr := p.store.Instance(ctx, instanceID); errors.Is(readErr, store.ErrNotFound) {
		return refuse(NotFound, "There is no service instance with this id.")
	}
	return err
}

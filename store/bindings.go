package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Ending is the state of a binding from the moment its unbind begins: the account may work no more.
const Ending = "ending"

// Binding is a service binding and the account made for it. Its state is Creating, Ready or Ending.
type Binding struct {
	InstanceID string
	ID         string
	State      string
	AppGUID    string
	Parameters json.RawMessage
	Role       string
	Account    string
	Password   string
	CreatedAt  time.Time
}

const bindingColumns = `instance_id, id, state, app_guid, parameters, role, account, password, created_at`

func bindingPlace(instanceID, id string) string { return "binding " + instanceID + " " + id }

func (k *Keyring) scanBinding(row pgx.CollectableRow) (Binding, error) {
	var b Binding
	var sealed []byte
	if err := row.Scan(&b.InstanceID, &b.ID, &b.State, &b.AppGUID, &b.Parameters, &b.Role, &b.Account, &sealed,
		&b.CreatedAt); err != nil {
		return b, err
	}
	var err error
	b.Password, err = k.open(sealed, bindingPlace(b.InstanceID, b.ID))
	return b, err
}

// Binding reads one binding, or returns ErrNotFound.
func (s *Store) Binding(ctx context.Context, instanceID, id string) (Binding, error) {
	return binding(ctx, s.pool, s.keys, instanceID, id)
}

// Binding reads one binding, or returns ErrNotFound.
func (t *Tx) Binding(ctx context.Context, instanceID, id string) (Binding, error) {
	return binding(ctx, t.tx, t.keys, instanceID, id)
}

func binding(ctx context.Context, q querier, keys *Keyring, instanceID, id string) (Binding, error) {
	return oneRow(ctx, q, keys.scanBinding,
		"SELECT "+bindingColumns+" FROM binding WHERE instance_id = $1 AND id = $2", instanceID, id)
}

// InsertBinding records a new binding in state Creating.
func (t *Tx) InsertBinding(ctx context.Context, b Binding) error {
	sealed, err := t.keys.seal(b.Password, bindingPlace(b.InstanceID, b.ID))
	if err != nil {
		return err
	}
	if _, err := t.tx.Exec(ctx, `INSERT INTO binding (instance_id, id, state, app_guid, parameters, role, account,
			password) VALUES ($1, $2, 'creating', $3, $4, $5, $6, $7)`,
		b.InstanceID, b.ID, b.AppGUID, orEmpty(b.Parameters), b.Role, b.Account, sealed); err != nil {
		return fmt.Errorf("insert the binding: %w", err)
	}
	return nil
}

// SetBindingState records a new state.
func (t *Tx) SetBindingState(ctx context.Context, instanceID, id, state string) error {
	_, err := t.tx.Exec(ctx, "UPDATE binding SET state = $3 WHERE instance_id = $1 AND id = $2", instanceID, id, state)
	return err
}

// DeleteBinding forgets a binding.
func (t *Tx) DeleteBinding(ctx context.Context, instanceID, id string) error {
	_, err := t.tx.Exec(ctx, "DELETE FROM binding WHERE instance_id = $1 AND id = $2", instanceID, id)
	return err
}

// RetireAccount remembers an account that outlives its binding; it goes with its instance.
func (t *Tx) RetireAccount(ctx context.Context, instanceID, account string) error {
	_, err := t.tx.Exec(ctx, `INSERT INTO retired_account (account, instance_id) VALUES ($1, $2)
		ON CONFLICT DO NOTHING`, account, instanceID)
	return err
}

// BindingAccount is the account of one binding of an instance, or a retired one with no binding id.
type BindingAccount struct {
	BindingID string
	Account   string
}

// Accounts lists every account that was ever planned for an instance and may exist: those of its bindings, finished
// or not, and retired ones.
func (s *Store) Accounts(ctx context.Context, instanceID string) ([]BindingAccount, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[BindingAccount], `
		SELECT id, account FROM binding WHERE instance_id = $1
		UNION ALL SELECT '', account FROM retired_account WHERE instance_id = $1`, instanceID)
}

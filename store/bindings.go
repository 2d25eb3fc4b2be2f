package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// Bindings records service bindings and their accounts.
type Bindings struct{ *database }

// Ending is the state of a binding once its unbind has begun: its account may not work any more.
const Ending = "ending"

// Binding is a service binding and its account. Its state is Creating, Ready or Ending.
type Binding struct {
	InstanceID string
	ID         string
	State      string
	AppGUID    string
	// The space and the organization that use the binding, "" if they are not known.
	SpaceGUID, OrganizationGUID string
	// Predecessor is the id of the binding that it succeeds, "" for none. That binding may be gone.
	Predecessor string
	Parameters  json.RawMessage
	Role        string
	Events      bool   // whether the account may create events while the instance is within its quota
	TLS         string // whether the account requires TLS; "" if it was made before that was recorded
	Account     string
	Password    string
	// CredHubName is where CredHub has the credentials, "" if it does not, and CredHubReader who may read them there.
	CredHubName, CredHubReader string
	ExpiresAt                  *time.Time // when the account ends by itself, by PostgreSQL's clock; nil for never
	CreatedAt                  time.Time
}

const bindingColumns = `instance_id, id, state, app_guid, parameters, role, coalesce(events, true), tls, account,
	password, created_at, predecessor, expires_at,
	space_guid, organization_guid, credhub_name, credhub_reader`

func bindingPlace(instanceID, id string) string { return "binding " + instanceID + " " + id }

func (k *Keyring) scanBinding(row pgx.CollectableRow) (Binding, error) {
	var b Binding
	var sealed []byte
	if err := row.Scan(&b.InstanceID, &b.ID, &b.State, &b.AppGUID, &b.Parameters, &b.Role, &b.Events, &b.TLS, &b.Account,
		&sealed, &b.CreatedAt, &b.Predecessor, &b.ExpiresAt, &b.SpaceGUID,
		&b.OrganizationGUID, &b.CredHubName, &b.CredHubReader); err != nil {
		return b, err
	}
	var err error
	b.Password, err = k.open(sealed, bindingPlace(b.InstanceID, b.ID))
	return b, err
}

// Count counts the bindings of an instance, in any state.
func (s Bindings) Count(ctx context.Context, instanceID string) (int, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int], countBindings, instanceID)
}

const countBindings = "SELECT count(*) FROM binding WHERE instance_id = $1"

const selectBinding = "SELECT " + bindingColumns + " FROM binding WHERE instance_id = $1 AND id = $2"

// Get reads one binding, or returns ErrNotFound.
func (s Bindings) Get(ctx context.Context, instanceID, id string) (Binding, error) {
	return oneRow(ctx, s.pool, s.keys.scanBinding, selectBinding, instanceID, id)
}

// InsertBinding records a new binding in state Creating, the account that will be on a shared server, and what will be
// in CredHub. Its account will get the privileges that the instance's OverSince asks for: the transaction has locked
// the instance.
func (t *Tx) InsertBinding(b Binding) error {
	sealed, err := t.keys.seal(b.Password, bindingPlace(b.InstanceID, b.ID))
	if err != nil {
		return err
	}
	t.write("insert the binding", `WITH inserted AS (
			INSERT INTO binding (instance_id, id, state, app_guid, parameters, role, tls, account, password, events,
				predecessor, expires_at, space_guid, organization_guid, credhub_name, credhub_reader, grants_due)
			VALUES ($1, $2, 'creating', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, false)
			RETURNING instance_id, id, account, credhub_name, credhub_reader),
		entry AS (INSERT INTO credhub_entry (name, reader, account, instance_id, binding_id)
			SELECT credhub_name, credhub_reader, account, instance_id, id FROM inserted WHERE credhub_name <> '')
		`+recordOfBinding,
		b.InstanceID, b.ID, b.AppGUID, orEmpty(b.Parameters), b.Role, b.TLS, b.Account, sealed, b.Events,
		b.Predecessor, b.ExpiresAt, b.SpaceGUID, b.OrganizationGUID, b.CredHubName, b.CredHubReader)
	return nil
}

// SetBindingPassword records the password that the account of a binding is to have.
func (t *Tx) SetBindingPassword(instanceID, id, password string) error {
	sealed, err := t.keys.seal(password, bindingPlace(instanceID, id))
	if err != nil {
		return err
	}
	t.write("set the binding's password", "UPDATE binding SET password = $3 WHERE instance_id = $1 AND id = $2",
		instanceID, id, sealed)
	return nil
}

// SetBindingState records a new state.
func (t *Tx) SetBindingState(instanceID, id, state string) {
	t.change("set the binding's state", "UPDATE binding SET state = $3 WHERE instance_id = $1 AND id = $2 AND :allowed",
		instanceID, id, state)
}

// DeleteBinding deletes a binding.
func (t *Tx) DeleteBinding(instanceID, id string) {
	t.change("delete the binding", "DELETE FROM binding WHERE instance_id = $1 AND id = $2 AND :allowed", instanceID, id)
}

// RecordRetiredAccount records an account that outlives its binding and is dropped with the instance. Call it before
// DeleteBinding. The account's privileges are due to be reconciled if those of its binding are, or if the instance is
// over its quota: an account that had to be created again has all privileges of its role. The statement locks the
// binding, so that SetOver cannot change that at the same time.
func (t *Tx) RecordRetiredAccount(instanceID, account string) {
	t.change("retire the account", `
		WITH former AS (SELECT role, grants_due, events FROM binding WHERE account = $1 FOR UPDATE)
		INSERT INTO retired_account (account, instance_id, role, grants_due, events)
		SELECT $1, id, coalesce((SELECT role FROM former), ''),
			over_since IS NOT NULL OR (SELECT grants_due FROM former) IS NOT FALSE, (SELECT events FROM former)
		FROM instance WHERE id = $2 AND :allowed ON CONFLICT DO NOTHING`, account, instanceID)
}

// BindingAccount is the account of a binding, or a retired account, which has no binding id.
type BindingAccount struct {
	BindingID string
	Account   string
	Role      string // "" if it is not known
}

var scanAccount = pgx.RowToStructByPos[BindingAccount]

const selectAccounts = `SELECT id, account, role FROM binding WHERE instance_id = $1
	UNION ALL SELECT '', account, role FROM retired_account WHERE instance_id = $1`

// Accounts lists every account of an instance that may exist: those of its bindings in any state, and retired ones.
func (s Bindings) Accounts(ctx context.Context, instanceID string) ([]BindingAccount, error) {
	return allRows(ctx, s.pool, scanAccount, selectAccounts, instanceID)
}

package store

import (
	"context"
	"encoding/json"
	"errors"
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
	TLS         string // whether the account requires TLS
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
// DeleteBinding. The account's privileges are due to be reconciled if those of its binding are. The statement locks the
// binding, so that SetOver cannot change that at the same time.
func (t *Tx) RecordRetiredAccount(instanceID, account string) {
	t.change("retire the account", `
		WITH former AS (SELECT role, grants_due, events FROM binding WHERE account = $1 FOR UPDATE)
		INSERT INTO retired_account (account, instance_id, role, grants_due, events)
		SELECT $1, id, coalesce((SELECT role FROM former), ''),
			coalesce((SELECT grants_due FROM former), true), (SELECT events FROM former)
		FROM instance WHERE id = $2 AND :allowed ON CONFLICT DO NOTHING`, account, instanceID)
}

// BindingAccount is the account of a binding, or a retired account, which has no binding id.
type BindingAccount struct {
	BindingID string
	Account   string
	Role      string // "" if it is not known
	Expired   bool   // the binding has expired by PostgreSQL's clock
}

var scanAccount = pgx.RowToStructByPos[BindingAccount]

const selectAccounts = `SELECT id, account, role, coalesce(expires_at <= now(), false) FROM binding
		WHERE instance_id = $1
	UNION ALL SELECT '', account, role, false FROM retired_account WHERE instance_id = $1`

// Accounts lists every account of an instance that may exist: those of its bindings in any state, and retired ones.
func (s Bindings) Accounts(ctx context.Context, instanceID string) ([]BindingAccount, error) {
	return allRows(ctx, s.pool, scanAccount, selectAccounts, instanceID)
}

// ExpiredBinding is a binding that has expired by PostgreSQL's clock.
type ExpiredBinding struct {
	InstanceID string
	ID         string
	Account    string
}

// Expired lists up to limit expired bindings that no task is ending, the first to expire first.
func (s Bindings) Expired(ctx context.Context, limit int) ([]ExpiredBinding, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[ExpiredBinding], `
		SELECT b.instance_id, b.id, b.account FROM binding b
		WHERE b.expires_at <= now() AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = b.instance_id
			AND t.binding_id = b.id AND t.state = 'in progress')
		ORDER BY b.expires_at LIMIT $1`, limit)
}

const expiredBinding = "SELECT FROM expired_binding WHERE instance_id = $1 AND id = $2"

// RecordExpired records for its platform that a binding has ended by itself. Call it before DeleteBinding.
func (t *Tx) RecordExpired(instanceID, id string) {
	t.change("record that the binding has expired", `INSERT INTO expired_binding (instance_id, id, expired_at)
		SELECT instance_id, id, coalesce(expires_at, now()) FROM binding WHERE instance_id = $1 AND id = $2 AND :allowed
		ON CONFLICT DO NOTHING`, instanceID, id)
}

// HasExpired reports whether a binding has ended by itself, and its platform has not deleted it yet.
func (s Bindings) HasExpired(ctx context.Context, instanceID, id string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], "SELECT EXISTS ("+expiredBinding+")", instanceID, id)
}

const forgetExpired = "DELETE FROM expired_binding WHERE instance_id = $1 AND id = $2 RETURNING true"

// ForgetExpired deletes the record of a binding that has ended by itself, when the platform deletes the binding. It
// reports whether there was one.
func (t *Tx) ForgetExpired(ctx context.Context, instanceID, id string) (found bool, err error) {
	err = read(ctx, t, statementTime, &found, pgx.RowTo[bool], forgetExpired, instanceID, id)
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	return found, err
}

// ForgetExpired is Tx.ForgetExpired outside of a transaction.
func (s Bindings) ForgetExpired(ctx context.Context, instanceID, id string) error {
	return s.exec(ctx, forgetExpired, instanceID, id)
}

// DeleteExpired deletes records of bindings that ended by themselves longer than age ago, and returns how many. A
// platform that deletes such a binding only then is told that there is none.
func (s Bindings) DeleteExpired(ctx context.Context, age time.Duration) (deleted int64, err error) {
	return s.run(ctx, s.pool, "DELETE FROM expired_binding WHERE ended_at < now() - $1::interval", age)
}

// overdueExpiry is by how many seconds the most overdue binding has outlived its time.
const overdueExpiry = `SELECT coalesce(extract(epoch FROM greatest(now() - min(expires_at), '0'::interval)), 0)::float8
	FROM binding WHERE expires_at IS NOT NULL`

// SetOver records whether the accounts of an instance, which the transaction has locked, may add data from now on.
// Their privileges on the server are reconciled afterwards: see DueAccounts.
func (t *Tx) SetOver(instanceID string, over bool) {
	t.change("set whether the instance is over its quota",
		"UPDATE instance SET over_since = CASE WHEN $2 THEN now() END WHERE id = $1 AND :allowed", instanceID, over)
	t.MarkGrants(instanceID)
}

// MarkGrants marks all accounts of an instance, so that their privileges on the server are reconciled.
func (t *Tx) MarkGrants(instanceID string) {
	t.changeAccounts("mark", "SET grants_due = true WHERE instance_id = $1", instanceID)
}

// changeAccounts queues an update of bindings, and the same of retired accounts.
func (t *Tx) changeAccounts(doing, sql string, args ...any) {
	t.change(doing+" the accounts", "UPDATE binding "+sql+" AND :allowed", args...)
	t.change(doing+" the retired accounts", "UPDATE retired_account "+sql+" AND :allowed", args...)
}

// SetFrozen records whether the accounts of an instance may not write because its data is a mixture.
func (t *Tx) SetFrozen(instanceID string, frozen bool) {
	t.change("set whether the instance is frozen", `UPDATE instance SET frozen_since = CASE WHEN $2
		THEN coalesce(frozen_since, now()) END WHERE id = $1 AND :allowed`, instanceID, frozen)
}

// DueAccount is an account that may have other privileges than its instance's OverSince asks for.
type DueAccount struct {
	InstanceID string
	BindingID  string // "" for a retired account
	Account    string
	Role       string // "" if it is not known
	Server     string // the shared server's name, or the dedicated server's id
}

// fromDue selects the due accounts of ready instances. Those of other instances cannot be reconciled and need not be;
// those of frozen ones keep what they have.
const fromDue = ` FROM (SELECT instance_id, id, account, role FROM binding WHERE grants_due IS NOT FALSE
		UNION ALL SELECT instance_id, '', account, role FROM retired_account WHERE grants_due) AS due
	JOIN instance i ON i.id = due.instance_id AND i.state = 'ready' AND i.frozen_since IS NULL `

// DueAccounts lists the due accounts of ready instances on dedicated servers or on shared ones; only of one instance if
// instanceID is not "". It returns up to limit accounts that follow after.
func (s Bindings) DueAccounts(ctx context.Context, dedicated bool, instanceID string, after DueAccount,
	limit int) ([]DueAccount, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[DueAccount],
		"SELECT due.instance_id, due.id, due.account, due.role, i.server || i.dedicated_id"+fromDue+`
		WHERE (i.location_kind = 'dedicated') = $1 AND ($2 = '' OR due.instance_id = $2)
			AND (due.instance_id, due.account) > ($3, $4)
		ORDER BY due.instance_id, due.account LIMIT $5`, dedicated, instanceID, after.InstanceID, after.Account, limit)
}

// SetReconciled records that an account, whose instance the transaction has locked, has the privileges that it should
// have, and whether it may create events while it may add data.
func (t *Tx) SetReconciled(account string, events bool) {
	t.changeAccounts("reconcile", "SET grants_due = false, events = $2 WHERE account = $1", account, events)
}

// SetEvents records whether the accounts of an instance, which the transaction has locked, may create events.
func (t *Tx) SetEvents(instanceID string, events bool) {
	t.changeAccounts("record the events of", "SET events = $2 WHERE instance_id = $1", instanceID, events)
}

// MarkEvents marks accounts as due that have EVENT although their plan is among those without it, or lack it although
// their plan is among those with it. Brokers that know no plan without EVENT give it to all accounts.
func (s Bindings) MarkEvents(ctx context.Context, with, without []string) error {
	for _, table := range []string{"binding", "retired_account"} {
		err := s.exec(ctx, `UPDATE `+table+` a SET grants_due = true FROM instance i
			WHERE i.id = a.instance_id AND a.grants_due IS FALSE AND (a.events IS FALSE AND i.plan_id = ANY ($1)
				OR a.events IS NOT FALSE AND i.plan_id = ANY ($2))`, with, without)
		if err != nil {
			return err
		}
	}
	return nil
}

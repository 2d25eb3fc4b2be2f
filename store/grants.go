package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// SetOver records whether the accounts of an instance, which the transaction has locked, may add data from now on.
// Their privileges on the server are reconciled afterwards: see DueAccounts.
func (t *Tx) SetOver(instanceID string, over bool) {
	t.change("set whether the instance is over its quota",
		"UPDATE instance SET over_since = CASE WHEN $2 THEN now() END WHERE id = $1 AND :allowed", instanceID, over)
	t.MarkGrants(instanceID)
}

// MarkGrants marks all accounts of an instance, so that their privileges on the server are reconciled.
func (t *Tx) MarkGrants(instanceID string) {
	t.change("mark the accounts", "UPDATE binding SET grants_due = true WHERE instance_id = $1 AND :allowed", instanceID)
	t.change("mark the retired accounts",
		"UPDATE retired_account SET grants_due = true WHERE instance_id = $1 AND :allowed", instanceID)
}

// SetFrozen records whether the accounts of an instance may not write because its data are a mixture.
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
	t.change("reconcile the account",
		"UPDATE binding SET grants_due = false, events = $2 WHERE account = $1 AND :allowed", account, events)
	t.change("reconcile the retired account",
		"UPDATE retired_account SET grants_due = false, events = $2 WHERE account = $1 AND :allowed", account, events)
}

// SetEvents records whether the accounts of an instance, which the transaction has locked, may create events.
func (t *Tx) SetEvents(instanceID string, events bool) {
	t.change("record whether the accounts may make events",
		"UPDATE binding SET events = $2 WHERE instance_id = $1 AND :allowed", instanceID, events)
	t.change("record whether the retired accounts may make events",
		"UPDATE retired_account SET events = $2 WHERE instance_id = $1 AND :allowed", instanceID, events)
}

// MarkEvents marks accounts as due that have EVENT although their plan is among those without it, or lack it although
// their plan is among those with it. Brokers that know no plan without EVENT give it to all accounts.
func (s Bindings) MarkEvents(ctx context.Context, with, without []string) error {
	for _, table := range []string{"binding", "retired_account"} {
		_, err := s.db.Exec(ctx, `UPDATE `+table+` a SET grants_due = true FROM instance i
			WHERE i.id = a.instance_id AND a.grants_due IS FALSE AND (a.events IS FALSE AND i.plan_id = ANY ($1)
				OR a.events IS NOT FALSE AND i.plan_id = ANY ($2))`, with, without)
		if err != nil {
			return err
		}
	}
	return nil
}

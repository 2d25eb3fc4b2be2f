package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// CopyAccounts records the accounts by which tasks copy databases, so that none stays.
type CopyAccounts struct{ *database }

// CopyAccount is an account by which a task reads or fills the database of an instance.
type CopyAccount struct {
	InstanceID string
	Account    string
	Role       string
}

// Record records an account before a task creates it. It is recorded as a retired account, so that it is
// dropped with its instance, and on a shared server as a resource. It returns ErrNotFound if there is no such instance,
// or if it is being deleted, and ErrLeaseLost if another worker may have the task.
func (s CopyAccounts) Record(ctx context.Context, l Lease, a CopyAccount) error {
	return s.inTx(ctx, func(tx *Tx) error {
		there, err := tx.Begin(ctx, a.InstanceID, "")
		if err != nil {
			return err
		}
		if active := there.Task(""); active != nil && active.Kind == Deprovision {
			return ErrNotFound
		}
		if err := tx.checkLease(ctx, l); err != nil {
			return err
		}
		tx.write("record the account of a copy", `WITH inserted AS (
				INSERT INTO retired_account (account, instance_id, role, grants_due, events) VALUES ($1, $2, $3, false, true)
				ON CONFLICT (account) DO UPDATE SET role = excluded.role, retired_at = now()
				RETURNING instance_id, account)
			`+recordOfBinding, a.Account, a.InstanceID, a.Role)
		return nil
	})
}

// Forget deletes the record of an account that was dropped.
func (s CopyAccounts) Forget(ctx context.Context, l Lease, account string) error {
	return s.underLease(ctx, l, func(tx *Tx) {
		tx.write("forget the account of a copy", "DELETE FROM retired_account WHERE account = $1", account)
	})
}

// underLease queues writes in a transaction, or returns ErrLeaseLost if another worker may have the task.
func (s *database) underLease(ctx context.Context, l Lease, write func(*Tx)) error {
	return s.inTx(ctx, func(tx *Tx) error {
		if err := tx.checkLease(ctx, l); err != nil {
			return err
		}
		write(tx)
		return nil
	})
}

// checkLease returns ErrLeaseLost if another worker may have the task. Until the transaction ends, none gets it.
func (t *Tx) checkLease(ctx context.Context, l Lease) error {
	held := new(bool)
	found := expectRow(t, held, pgx.RowTo[bool],
		"SELECT true FROM task WHERE id = $1 AND epoch = $2 AND "+notEnded+" FOR UPDATE", l.ID, l.Epoch)
	if err := t.flush(ctx, rowLockTime); err != nil {
		return err
	}
	if !*found {
		return ErrLeaseLost
	}
	return nil
}

// CopyUnderWay is an instance that is being created with the data of another one.
type CopyUnderWay struct {
	InstanceID  string
	PlanID      string
	Context     json.RawMessage
	BegunAt     time.Time
	Description string
}

// UnderWay lists the instances that are being created as copies of an instance, in the same organization and
// space.
func (s CopyAccounts) UnderWay(ctx context.Context, id string) ([]CopyUnderWay, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[CopyUnderWay], `SELECT i.id, i.plan_id, i.context, t.created_at,
			t.description
		FROM task t JOIN instance i ON i.id = t.instance_id
			JOIN instance source USING (organization_guid, space_guid)
		WHERE source.id = $1 AND t.state = 'in progress' AND t.binding_id = '' AND t.kind = '`+Provision+`'
			AND i.parameters->>'clone_from' = $1
		ORDER BY t.created_at, i.id`, id)
}

// FatalObjects records objects of instances at whose definition a server may have ended.
type FatalObjects struct{ *database }

// Record records that the connection to a server was lost after it was asked for an object, some time ago.
func (s FatalObjects) Record(ctx context.Context, instanceID, version, object string, ago time.Duration) error {
	return s.exec(ctx, `INSERT INTO fatal_object
		SELECT id, $3, $2, now() - $4::interval FROM instance WHERE id = $1
		ON CONFLICT (instance_id, object) DO UPDATE SET version = excluded.version, asked_at = excluded.asked_at`,
		instanceID, version, object, ago)
}

// List lists the objects of an instance about which a server of that version was asked before it started. It has run
// for uptime at least.
func (s FatalObjects) List(ctx context.Context, instanceID, version string, uptime time.Duration) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT object FROM fatal_object
		WHERE instance_id = $1 AND version = $2 AND asked_at < now() - $3::interval ORDER BY 1`,
		instanceID, version, uptime)
}

// Forget forgets the objects of an instance.
func (s FatalObjects) Forget(ctx context.Context, instanceID string) error {
	return s.exec(ctx, "DELETE FROM fatal_object WHERE instance_id = $1", instanceID)
}

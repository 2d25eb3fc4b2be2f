package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Retentions records the data of deleted instances that can be taken back.
type Retentions struct{ *database }

// Retained is the data of a deleted instance, which can be taken back.
type Retained struct {
	ID                string    `json:"id"`             // the broker's own
	InstanceID        string    `json:"instance_id"`    // of the deleted instance
	Name              string    `json:"name,omitempty"` // of the deleted instance; "" if the platform sent none
	ServiceID         string    `json:"-"`
	PlanID            string    `json:"plan_id"`
	Platform          string    `json:"-"` // to whom it belonged, as Tx.Retain got it
	OrganizationGUID  string    `json:"organization_guid,omitempty"`
	SpaceGUID         string    `json:"space_guid,omitempty"`
	Location          Location  `json:"-"`
	Database          string    `json:"database"`
	AdminPassword     string    `json:"-"` // of a dedicated server, and the one that it may have been changed to
	NextAdminPassword string    `json:"-"`
	Bytes             *int64    `json:"bytes,omitempty"` // at the last measurement; nil if there was none
	DeletedAt         time.Time `json:"deleted_at"`
	Until             time.Time `json:"until"`                // then the data is dropped
	AdoptedBy         string    `json:"adopted_by,omitempty"` // the instance that is being created from it, "" for none
	Frozen            bool      `json:"-"`                    // its accounts may not write: see Instance.FrozenSince
}

const retainedColumns = `i.id, i.instance_id, i.name, i.service_id, i.plan_id, i.organization_guid, i.space_guid,
	i.platform, ` + locationColumns + `, i.database_name, i.admin_password, i.next_admin_password, i.bytes, i.deleted_at,
	i.until, coalesce(i.adopted_by, ''), i.frozen_since IS NOT NULL`

func (k *Keyring) scanRetained(row pgx.CollectableRow) (r Retained, err error) {
	var admin, next []byte
	if err := row.Scan(&r.ID, &r.InstanceID, &r.Name, &r.ServiceID, &r.PlanID, &r.OrganizationGUID, &r.SpaceGUID,
		&r.Platform, &r.Location.Kind, &r.Location.Server, &r.Location.Launcher, &r.Database, &admin, &next, &r.Bytes,
		&r.DeletedAt, &r.Until, &r.AdoptedBy, &r.Frozen); err != nil {
		return r, err
	}
	var own, coming error
	r.AdminPassword, own = k.open(admin, instancePlace(r.InstanceID))
	r.NextAdminPassword, coming = k.open(next, instancePlace(r.InstanceID))
	return r, errors.Join(own, coming)
}

const selectRetained = "SELECT " + retainedColumns + " FROM retained i WHERE "

// Find lists the data that can be taken back of deleted instances of that id or name, of any tenant, the latest
// first.
func (s Retentions) Find(ctx context.Context, serviceID, idOrName string) ([]Retained, error) {
	return allRows(ctx, s.pool, s.keys.scanRetained, selectRetained+`service_id = $1 AND $2 IN (id, instance_id, name)
			AND purged_since IS NULL AND until > now()
		ORDER BY deleted_at DESC`, serviceID, idOrName)
}

// Of lists the data that a tenant can take back, the latest first, limit at most.
func (s Retentions) Of(ctx context.Context, platform, organization, space string, limit int) ([]Retained, error) {
	return allRows(ctx, s.pool, s.keys.scanRetained, selectRetained+`platform = $1 AND organization_guid = $2
			AND space_guid = $3 AND purged_since IS NULL AND until > now()
		ORDER BY deleted_at DESC LIMIT $4`, platform, organization, space, limit)
}

// Adopted returns the data from which an instance is being created, or ErrNotFound.
func (s Retentions) Adopted(ctx context.Context, instanceID string) (Retained, error) {
	return oneRow(ctx, s.pool, s.keys.scanRetained, selectRetained+"adopted_by = $1", instanceID)
}

// Expired lists what is due to be dropped. What could not be dropped before comes last, so that one server that hangs
// does not keep the data of all others.
func (s Retentions) Expired(ctx context.Context) ([]Retained, error) {
	return allRows(ctx, s.pool, s.keys.scanRetained, selectRetained+`until <= now() AND adopted_by IS NULL
		ORDER BY purged_since NULLS FIRST, until`)
}

// All lists all that is retained, in the order in which it is dropped.
func (s Retentions) All(ctx context.Context) ([]Retained, error) {
	return allRows(ctx, s.pool, s.keys.scanRetained, selectRetained+"true ORDER BY until, id")
}

// Expire ends the days of retained data now, and records that for the audit. It returns ErrTaken if an instance
// is being created from them, and ErrNotFound if there are none of that id.
func (s Retentions) Expire(ctx context.Context, id string) error {
	actor, err := s.actor.doing(purged)
	if err != nil {
		return err
	}
	adopted, err := oneRow(ctx, s.pool, pgx.RowTo[bool], `WITH due AS (UPDATE retained
			SET until = CASE WHEN adopted_by IS NULL THEN least(until, now()) ELSE until END
			WHERE id = $2 RETURNING id, instance_id, adopted_by IS NOT NULL AS adopted),
		audited AS (INSERT INTO audit (actor, action, instance_id, object, result)
			SELECT $1, '`+purged+`', instance_id, id, 'begun' FROM due WHERE NOT adopted)
		SELECT adopted FROM due`, actor, id)
	if err == nil && adopted {
		return ErrTaken
	}
	return err
}

// At lists all that is retained on a shared server, or on the dedicated servers ("").
func (s Retentions) At(ctx context.Context, server string) ([]Retained, error) {
	return allRows(ctx, s.pool, s.keys.scanRetained, selectRetained+"server = $1 ORDER BY id", server)
}

// Accounts lists the accounts that retained data still has on their server.
func (s Retentions) Accounts(ctx context.Context, id string) ([]BindingAccount, error) {
	return allRows(ctx, s.pool, scanAccount,
		"SELECT '', account, role, false FROM retained_account WHERE retained_id = $1 ORDER BY account", id)
}

// Retain deletes an instance as DeleteInstance does, but records that its data stays for some days, with these of its
// accounts. The data keep their place on a shared server. r has the new id, and to whom the instance belonged.
func (t *Tx) Retain(instanceID string, r Retained, days int, accounts []string) {
	t.change("retain the instance's data", `WITH gone AS (DELETE FROM instance WHERE id = $1 AND :allowed RETURNING *),
		kept AS (
			INSERT INTO retained (id, instance_id, name, service_id, plan_id, organization_guid, space_guid, platform, server,
				dedicated_id, launcher, database_name, admin_password, next_admin_password, frozen_since, bytes, until)
			SELECT $2, id, coalesce(context->>'instance_name', ''), service_id, plan_id, $6, $7, $3,
				server, dedicated_id, launcher, database_name, admin_password, next_admin_password, frozen_since,
				(SELECT bytes FROM storage_usage u WHERE u.database_name = gone.database_name),
				`+laterOf("$8")+` + $4 * interval '1 day'
			FROM gone RETURNING id)
		INSERT INTO retained_account (account, retained_id, role)
		SELECT account, kept.id, role FROM kept, (
			SELECT account, role FROM binding WHERE instance_id = $1
			UNION ALL SELECT account, role FROM retired_account WHERE instance_id = $1) AS a
		WHERE account = ANY ($5)`, instanceID, r.ID, r.Platform, days, append([]string{}, accounts...), r.OrganizationGUID,
		r.SpaceGUID, time.Now())
}

// ErrTaken is returned when retained data is being dropped, or another instance is being created from it.
var ErrTaken = errors.New("store: the retained data is taken")

// RecordUndelete records a new instance that gets retained data, with its task. The data stays retained until
// Tx.AdoptRetained. Its errors are those of RecordProvision, and ErrTaken, which it also returns if there is an
// instance of that id. within is Room.Within.
func (s Retentions) RecordUndelete(ctx context.Context, asked Asked, i Instance, n NewTask, id string,
	within func(InstanceCounts) error) (t Task, err error) {
	var recorded *Task
	err = s.inTx(ctx, func(tx *Tx) error {
		tx.lockID(i.ID)
		var claimed string
		err := read(ctx, tx, rowLockTime, &claimed, pgx.RowTo[string], `UPDATE retained SET adopted_by = $2
			WHERE id = $1 AND adopted_by IS NULL AND purged_since IS NULL AND NOT EXISTS (SELECT FROM instance WHERE id = $2)
			RETURNING id`, id, i.ID)
		if errors.Is(err, ErrNotFound) {
			return ErrTaken
		}
		if err != nil {
			return err
		}
		if err := tx.insertNew(ctx, i, asked.Absent); err != nil {
			return err
		}
		if i.NextAdminPassword != "" {
			if err := tx.SetNextAdminPassword(i.ID, i.NextAdminPassword); err != nil {
				return err
			}
		}
		if err := tx.within(ctx, within, i); err != nil {
			return err
		}
		recorded = tx.InsertTask(n)
		return asked.inTime()
	})
	if err != nil {
		return t, err
	}
	return *recorded, nil
}

// AdoptRetained makes an instance the owner of the data that it was created from, and freezes it if they were frozen.
// Of the accounts, those that it names become retired accounts of the instance. What a restore has kept beside the data
// goes with them.
func (t *Tx) AdoptRetained(instanceID string, accounts []string) {
	t.change("adopt the retained data", `WITH adopted AS (DELETE FROM retained WHERE adopted_by = $1 AND :allowed
			RETURNING *),
		frozen AS (UPDATE instance i SET frozen_since = a.frozen_since FROM adopted a WHERE i.id = $1),
		had AS (SELECT account, role FROM retained_account WHERE retained_id IN (SELECT id FROM adopted)),
		moved AS (UPDATE resource r SET instance_id = $1 FROM adopted a
			WHERE r.kind = CASE a.location_kind WHEN 'shared' THEN 'database' ELSE 'dedicated server' END
				AND r.server = a.server AND r.name = CASE a.location_kind WHEN 'shared' THEN a.database_name ELSE a.dedicated_id END
			OR r.kind = 'account' AND r.server = a.server AND r.name IN (SELECT account FROM had)
			OR r.task_id IS NOT NULL AND r.server = a.server AND r.instance_id = a.instance_id)
		INSERT INTO retired_account (account, instance_id, role, grants_due)
		SELECT account, $1, role, false FROM had WHERE account = ANY ($2) ON CONFLICT DO NOTHING`,
		instanceID, append([]string{}, accounts...))
}

// BeginPurge records that retained data that is due is being dropped, so that it cannot come back any more. It returns
// ErrTaken if the data is not due any more, or an instance is being created from it.
func (s Retentions) BeginPurge(ctx context.Context, id string) error {
	return s.change(ctx, ErrTaken, `UPDATE retained SET purged_since = coalesce(purged_since, now())
		WHERE id = $1 AND until <= now() AND adopted_by IS NULL`, id)
}

// EndPurge deletes the record of retained data that was dropped, and gives its place on a shared server free.
func (s Retentions) EndPurge(ctx context.Context, id string) error {
	return s.exec(ctx, `WITH gone AS (DELETE FROM retained WHERE id = $1 AND purged_since IS NOT NULL
			RETURNING server)
		UPDATE server SET instances = instances - 1 FROM gone WHERE name = gone.server`, id)
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Instances records service instances, and where their data is.
type Instances struct{ *database }

// States of an instance. A binding is Creating, Ready or Ending.
const (
	Creating     = "creating" // its provision has not ended yet
	Ready        = "ready"
	CreateFailed = "create failed" // its provision failed, and was undone
	DeleteFailed = "delete failed" // some of it may be deleted; it can be deprovisioned again
)

// Instance is a service instance and every choice made for it.
type Instance struct {
	ID                 string
	ServiceID          string
	PlanID             string
	OrganizationGUID   string
	SpaceGUID          string
	Parameters         json.RawMessage
	Context            json.RawMessage
	MaintenanceVersion string
	State              string
	Location           Location
	Endpoint           *Endpoint // where its dedicated server listens, nil if that is not recorded
	ServerFlavour      string    // of its dedicated server, "mysql" or "mariadb"; "" until a broker has asked
	ServerVersion      string    // such as "11.8.9"; "" likewise
	Database           string
	AdminPassword      string // of a dedicated server
	NextAdminPassword  string // while AdminPassword is being changed to it, else ""
	CreatedAt          time.Time
	UpdatedAt          time.Time
	OverSince          *time.Time // when its accounts lost the write privileges, nil while they have them
	FrozenSince        *time.Time // when a restore in place failed and could not be undone: its accounts may not write
	Other              *OtherPlace
}

const instanceColumns = `id, service_id, plan_id, organization_guid, space_guid, parameters, context,
	maintenance_version, state, ` + locationColumns + `, endpoint, server_flavour, server_version, database_name,
	admin_password, next_admin_password,
	created_at, updated_at, over_since, frozen_since, ` + otherColumns

func instancePlace(id string) string { return "instance " + id }

func (k *Keyring) scanInstance(row pgx.CollectableRow) (Instance, error) {
	var i Instance
	var admin, next, other []byte
	var place OtherPlace
	if err := row.Scan(&i.ID, &i.ServiceID, &i.PlanID, &i.OrganizationGUID, &i.SpaceGUID, &i.Parameters, &i.Context,
		&i.MaintenanceVersion, &i.State, &i.Location.Kind, &i.Location.Server, &i.Location.Launcher, &i.Endpoint,
		&i.ServerFlavour, &i.ServerVersion, &i.Database, &admin, &next, &i.CreatedAt, &i.UpdatedAt, &i.OverSince,
		&i.FrozenSince, &place.Location.Kind, &place.Location.Server, &place.Location.Launcher, &other,
		&place.Moved); err != nil {
		return i, err
	}
	var own, coming, elsewhere error
	i.AdminPassword, own = k.open(admin, instancePlace(i.ID))
	i.NextAdminPassword, coming = k.open(next, instancePlace(i.ID))
	place.AdminPassword, elsewhere = k.open(other, instancePlace(i.ID))
	if place.Location.Kind != "" {
		i.Other = &place
	}
	return i, errors.Join(own, coming, elsewhere)
}

// Get reads one instance, or returns ErrNotFound.
func (s Instances) Get(ctx context.Context, id string) (Instance, error) {
	return oneRow(ctx, s.pool, s.keys.scanInstance, selectInstance, id)
}

const (
	selectInstance = "SELECT " + instanceColumns + " FROM instance i WHERE id = $1"
	lockInstance   = selectInstance + " FOR NO KEY UPDATE"
)

// LockInstance locks and reads one instance, or returns ErrNotFound. Other transactions that lock it wait for some
// seconds, and then fail with ErrLocked. Every operation begins with this lock, so that operations of an instance begin
// one after the other. Rows that refer to the instance can be inserted meanwhile, as the ends of some operations do.
// https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS
func (t *Tx) LockInstance(ctx context.Context, id string) (i Instance, err error) {
	err = read(ctx, t, rowLockTime, &i, t.keys.scanInstance, lockInstance, id)
	return i, err
}

// insertNew records a new instance that a platform asked for, with what will be on a server. It returns ErrHeld during
// a Hold, and ErrExists if there is one with this id, or if the platform was told at another time than absent (nil:
// never) that there is none. The transaction, which has the lock of the id, must not commit then.
func (t *Tx) insertNew(ctx context.Context, i Instance, absent *time.Time) error {
	inserted, err := t.insertInstance(i)
	if err != nil {
		return err
	}
	expectRow(t, &t.hold, pgx.RowTo[bool], "SELECT "+isHeld)
	// This is read after the insertion, which may have waited for the end of a deprovision.
	var reported *time.Time
	expectRow(t, &reported, pgx.RowTo[*time.Time], reportedGone, i.ID)
	if err := t.flush(ctx, rowLockTime); err != nil {
		return err
	}
	known := (reported == nil) == (absent == nil) && (absent == nil || reported.Equal(*absent))
	switch {
	case !*inserted:
		return ErrExists
	case t.hold:
		return ErrHeld
	case !known:
		return ErrExists
	}
	return nil
}

// insertInstance records a new instance in state Creating, unless one with this id exists.
func (t *Tx) insertInstance(i Instance) (inserted *bool, err error) {
	var sealed []byte
	if i.AdminPassword != "" {
		if sealed, err = t.keys.seal(i.AdminPassword, instancePlace(i.ID)); err != nil {
			return nil, err
		}
	}
	server, dedicatedID, launcher := i.Location.columns()
	var id string
	return expectRow(t, &id, pgx.RowTo[string], `WITH inserted AS (
			INSERT INTO instance (id, service_id, plan_id, organization_guid, space_guid, parameters, context,
				maintenance_version, state, server, dedicated_id, launcher, database_name, admin_password)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'creating', $9, $10, $11, $12, $13)
			ON CONFLICT (id) DO NOTHING RETURNING id, location_kind, server, dedicated_id, launcher, database_name),
		recorded AS (`+recordOfInstance+`)
		SELECT id FROM inserted`,
		i.ID, i.ServiceID, i.PlanID, i.OrganizationGUID, i.SpaceGUID, orEmpty(i.Parameters), orEmpty(i.Context),
		i.MaintenanceVersion, server, dedicatedID, launcher, i.Database, sealed), nil
}

// SetInstanceState records a new state.
func (t *Tx) SetInstanceState(id, state string) {
	t.change("set the instance's state", `UPDATE instance SET state = $2, updated_at = now()
		WHERE id = $1 AND :allowed`, id, state)
}

// SetInstancePlan records what an update changed, and which plan the instance had before: see HadPlan.
func (t *Tx) SetInstancePlan(id, planID, maintenanceVersion string) {
	t.change("set the instance's plan", `UPDATE instance SET plan_id = $2, maintenance_version = $3, updated_at = now(),
			former_plans = CASE WHEN plan_id = $2 THEN former_plans
				ELSE array_append(array_remove(former_plans, plan_id), plan_id) END
		WHERE id = $1 AND :allowed`, id, planID, maintenanceVersion)
}

// SetKeepDeletedDays records for how many days the data of an instance is kept once it is deleted.
func (t *Tx) SetKeepDeletedDays(id string, days int) {
	t.change("set the days of deleted data", `UPDATE instance
		SET parameters = jsonb_set(parameters, '{keep_deleted_days}', to_jsonb($2::int)), updated_at = now()
		WHERE id = $1 AND :allowed`, id, days)
}

// DeleteInstance deletes an instance with its bindings and retired accounts, and uncounts it on its shared server. If
// it was being created from retained data, these can come back to another instance again, and keep their place there.
func (t *Tx) DeleteInstance(id string) {
	t.change("delete the instance", `WITH gone AS (DELETE FROM instance WHERE id = $1 AND :allowed RETURNING id, server),
		released AS (UPDATE retained SET adopted_by = NULL FROM gone WHERE adopted_by = gone.id RETURNING adopted_by)
		UPDATE server SET instances = instances - 1 FROM gone
		WHERE name = gone.server AND NOT EXISTS (SELECT FROM released)`, id)
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// Find returns the id of the instance that has this id, database or account, retired accounts included, or
// ErrNotFound.
func (s Instances) Find(ctx context.Context, name string) (id string, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[string], `SELECT id FROM instance WHERE id = $1
		UNION ALL SELECT id FROM instance WHERE database_name = $1
		UNION ALL SELECT instance_id FROM binding WHERE account = $1
		UNION ALL SELECT instance_id FROM retired_account WHERE account = $1 LIMIT 1`, name)
}

// AmbiguousError says that several instances have a name.
type AmbiguousError struct {
	Name string
	IDs  []string // some of them
}

func (e *AmbiguousError) Error() string {
	return fmt.Sprintf("several service instances are called %q; take the id of one of them: %s", e.Name,
		strings.Join(e.IDs, ", "))
}

// Named is Find for what a person has typed: it also takes the name that the platform gave to an instance, if only one
// has it, and returns an AmbiguousError otherwise. Whoever creates instances chooses their names, so an id, a database
// or an account comes first.
func (s Instances) Named(ctx context.Context, name string) (id string, err error) {
	id, err = s.Find(ctx, name)
	if !errors.Is(err, ErrNotFound) || name == "" {
		return id, err
	}
	ids, err := allRows(ctx, s.pool, pgx.RowTo[string],
		"SELECT id FROM instance WHERE context->>'instance_name' = $1 ORDER BY id LIMIT 10", name)
	switch {
	case err != nil:
		return "", err
	case len(ids) == 0:
		return "", ErrNotFound
	case len(ids) > 1:
		return "", &AmbiguousError{name, ids}
	}
	return ids[0], nil
}

// HadPlan reports whether an instance has a plan or had it before, or a task of the instance, or of an earlier one with
// that id, names the plan. For deleted instances, it knows that for as long as their tasks are kept.
func (s Instances) HadPlan(ctx context.Context, instanceID, planID string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], `SELECT
		EXISTS (SELECT FROM instance WHERE id = $1 AND (plan_id = $2 OR $2 = ANY (former_plans)))
		OR EXISTS (SELECT FROM task WHERE instance_id = $1 AND plan_id = $2)`, instanceID, planID)
}

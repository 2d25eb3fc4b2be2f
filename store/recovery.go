package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Recovery makes PostgreSQL agree with the servers again after it was restored from a backup.
type Recovery struct{ *database }

// RecordedInstance is an instance without its secrets.
type RecordedInstance struct {
	ID     string
	State  string
	PlanID string
	Location
	Database  string
	CreatedAt time.Time
	OverSince *time.Time
	Frozen    bool // see Instance.FrozenSince
	Busy      bool // a task is in progress, which may have changed privileges for some time, or the instance is frozen
}

// RecordedAccount is the account of a binding, or a retired one.
type RecordedAccount struct {
	InstanceID string
	BindingID  string // "" for a retired account
	State      string // the binding's
	Account    string
	Role       string // "" if it is not known
	CreatedAt  time.Time
	GrantsDue  bool // its privileges are due to be reconciled
	Expired    bool // its binding has expired
}

const selectRecordedInstances = `SELECT id, state, plan_id, ` + locationColumns + `, database_name, created_at,
	over_since, frozen_since IS NOT NULL, frozen_since IS NOT NULL OR EXISTS (
		SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id = '' AND t.state = 'in progress')
	FROM instance i `

// Instances reads the instances on a shared server, or those on dedicated servers ("").
func (s Recovery) Instances(ctx context.Context, server string) ([]RecordedInstance, error) {
	return scanned[RecordedInstance](ctx, s.pool, selectRecordedInstances+"WHERE server = $1 ORDER BY id", server)
}

// Instance reads one instance, or returns ErrNotFound.
func (s Recovery) Instance(ctx context.Context, id string) (RecordedInstance, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[RecordedInstance], selectRecordedInstances+"WHERE id = $1", id)
}

func selectRecordedAccounts(where string) string {
	return `SELECT b.instance_id, b.id, b.state, b.account, b.role, b.created_at, b.grants_due,
			coalesce(b.expires_at <= now(), false)
		FROM binding b JOIN instance i ON i.id = b.instance_id ` + where + `
	UNION ALL SELECT a.instance_id, '', '', a.account, a.role, a.retired_at, a.grants_due, false
		FROM retired_account a JOIN instance i ON i.id = a.instance_id ` + where + `
	ORDER BY 1, 4`
}

// RecordedPlace is an OtherPlace, whose instance's database has this name.
type RecordedPlace struct {
	InstanceID string
	Database   string
	Location
	Moved *time.Time // as in OtherPlace
}

// Places reads the other places of all instances.
func (s Recovery) Places(ctx context.Context) ([]RecordedPlace, error) {
	return scanned[RecordedPlace](ctx, s.pool, `SELECT i.id, i.database_name, `+placeColumns+`, i.moved_at
		FROM instance i WHERE i.next_server IS NOT NULL ORDER BY i.id`)
}

// Accounts reads the accounts of the instances on a shared server, or of those on dedicated servers ("").
func (s Recovery) Accounts(ctx context.Context, server string) ([]RecordedAccount, error) {
	return scanned[RecordedAccount](ctx, s.pool, selectRecordedAccounts("WHERE i.server = $1"), server)
}

// AccountsOf reads the accounts of one instance.
func (s Recovery) AccountsOf(ctx context.Context, instanceID string) ([]RecordedAccount, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[RecordedAccount],
		selectRecordedAccounts("WHERE i.id = $1"), instanceID)
}

// InProgress reads the tasks in progress that were recorded before then.
func (s Tasks) InProgress(ctx context.Context, before time.Time) ([]Task, error) {
	return allRows(ctx, s.pool, scanTask, "SELECT "+taskColumns+` FROM task
		WHERE state = 'in progress' AND created_at < $1 ORDER BY id`, before)
}

// Busy reports whether a worker may be running a task of another kind than these.
func (s Recovery) Busy(ctx context.Context, except ...string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], `SELECT EXISTS (SELECT FROM task
		WHERE lease_until > clock_timestamp() AND kind <> ALL ($1) AND `+notEnded+`)`, append([]string{}, except...))
}

// Recovered is the LastError of a task that EndTask ended.
const Recovered = "ended by mysql-broker recover: PostgreSQL was restored from a backup of an earlier time"

// EndTask ends a task in progress with the outcome that the recovery found.
func (t *Tx) EndTask(id int64, state, description string) {
	t.write("end a task of the past", `WITH ended AS (
			UPDATE task SET state = $2, description = $3, last_error = $4, epoch = epoch + 1, finished_at = now(),
				lease_owner = NULL, lease_until = NULL
			WHERE id = $1 AND `+notEnded+` RETURNING *) `+auditEnded, id, state, description, Recovered)
}

// Adopt records a ready instance at a location from a copy. If PostgreSQL has its data as retained, the instance got
// them since the backup.
func (t *Tx) Adopt(c InstanceCopy, at Location) {
	server, dedicatedID, launcher := at.columns()
	t.write("adopt the instance", `WITH inserted AS (
			INSERT INTO instance (id, service_id, plan_id, organization_guid, space_guid, parameters, context,
				maintenance_version, state, server, dedicated_id, launcher, database_name, admin_password,
				next_admin_password, created_at, frozen_since)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'ready', $9, $10, $11, $12, $13, $14, $15, $16)
			RETURNING id, location_kind, server, dedicated_id, launcher, database_name)
		`+recordOfInstance,
		c.ID, c.ServiceID, c.PlanID, c.OrganizationGUID, c.SpaceGUID, orEmpty(c.Parameters), orEmpty(c.Context),
		c.MaintenanceVersion, server, dedicatedID, launcher, c.Database, c.AdminPassword, c.NextAdminPassword, c.CreatedAt,
		c.FrozenSince)
	t.write("end what was retained", `WITH gone AS (DELETE FROM retained WHERE database_name = $1
			RETURNING server, database_name, dedicated_id),
		moved AS (UPDATE resource r SET instance_id = $2 FROM gone WHERE r.kind <> 'account' AND r.server = gone.server
			AND r.name IN (gone.database_name, gone.dedicated_id))
		UPDATE server SET instances = instances - 1 FROM gone WHERE name = gone.server`, c.Database, c.ID)
	if at.Shared() {
		t.write("take a place", `INSERT INTO server (name, instances) VALUES ($1, 1)
			ON CONFLICT (name) DO UPDATE SET instances = server.instances + 1`, server)
	}
}

// AdoptPlace records from a copy that the data of an instance is at a location, to which it was moved since. If the
// place that was recorded still exists, it is kept as long as after any move. It returns ErrNotFound if there is no
// such instance. The transaction has locked it.
func (t *Tx) AdoptPlace(ctx context.Context, c InstanceCopy, at Location, kept bool) error {
	server, dedicatedID, launcher := at.columns()
	var was struct{ Server, Next string }
	if err := read(ctx, t, rowLockTime, &was, pgx.RowToStructByPos[struct{ Server, Next string }],
		"SELECT server, coalesce(next_server, '') FROM instance WHERE id = $1", c.ID); err != nil {
		return err
	}
	places := map[string]int{} // by how much the instances of shared servers change
	places[was.Server]--
	places[was.Next]--
	places[server]++
	if kept {
		places[was.Server]++
	}
	t.countPlaces(places)
	t.write("adopt the place", `WITH inserted AS (
			UPDATE instance SET server = $2, dedicated_id = $3, launcher = $4, admin_password = $5, next_admin_password = $6,
				endpoint = NULL, server_flavour = '', server_version = '', plan_id = $7, maintenance_version = $8,
				next_server = CASE WHEN $9 THEN server END, next_dedicated_id = CASE WHEN $9 THEN dedicated_id END,
				next_launcher = CASE WHEN $9 THEN launcher END, other_admin_password = CASE WHEN $9 THEN admin_password END,
				moved_at = CASE WHEN $9 THEN coalesce($10, now()) END, frozen_since = coalesce(frozen_since, $11),
				updated_at = now()
			WHERE id = $1 RETURNING id, location_kind, server, dedicated_id, launcher, database_name)
		`+recordOfInstance, c.ID, server, dedicatedID, launcher, c.AdminPassword, c.NextAdminPassword, c.PlanID,
		c.MaintenanceVersion, kept, c.MovedAt, c.FrozenSince)
	t.recordAccountsAt(c.ID, server)
	return nil
}

// RetainCopy records from a copy what a deleted instance has left at a location, and deletes the instance, if it is
// recorded.
func (t *Tx) RetainCopy(c InstanceCopy, at Location) {
	server, dedicatedID, launcher := at.columns()
	accounts := slices.Sorted(maps.Keys(c.Retained.Accounts))
	roles := make([]string, len(accounts))
	for n, account := range accounts {
		roles[n] = c.Retained.Accounts[account]
	}
	// The instance may itself have got the data of one that was deleted before.
	t.write("forget who had the data before", "DELETE FROM retained WHERE database_name = $1 AND adopted_by = $2",
		c.Database, c.ID)
	t.write("retain the data", `WITH inserted AS (
			INSERT INTO retained (id, instance_id, name, service_id, plan_id, organization_guid, space_guid, platform, server,
				dedicated_id, launcher, database_name, admin_password, next_admin_password, bytes, deleted_at, until,
				frozen_since)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $20)
			RETURNING id AS retained_id, instance_id AS id, location_kind, server, dedicated_id, launcher, database_name),
		kept AS (INSERT INTO retained_account (account, retained_id, role)
			SELECT a.account, retained_id, a.role FROM inserted, unnest($18::text[], $19::text[]) AS a (account, role)),
		recorded AS (INSERT INTO resource (kind, server, name, instance_id)
			SELECT 'account', server, account, id FROM inserted, unnest($18::text[]) AS account
			WHERE location_kind = 'shared' ON CONFLICT DO NOTHING)
		`+recordOfInstance, c.Retained.ID, c.ID, c.Retained.Name, c.ServiceID, c.PlanID, c.OrganizationGUID, c.SpaceGUID,
		c.Retained.Platform, server, dedicatedID, launcher, c.Database, c.AdminPassword, c.NextAdminPassword,
		c.Retained.Bytes, c.Retained.DeletedAt, c.Retained.Until, accounts, roles, c.FrozenSince)
	t.write("take a place", `WITH gone AS (DELETE FROM instance WHERE id = $1 AND database_name = $2 RETURNING server)
		INSERT INTO server (name, instances) SELECT $3, 1 WHERE $3 <> '' AND NOT EXISTS (SELECT FROM gone)
			ON CONFLICT (name) DO UPDATE SET instances = server.instances + 1`, c.ID, c.Database, server)
}

// AdoptFormer records from a copy that a location has the data of an instance as it was before it was moved away.
func (t *Tx) AdoptFormer(ctx context.Context, c InstanceCopy, at Location, moved time.Time) error {
	server, dedicatedID, launcher := at.columns()
	var next string
	if err := read(ctx, t, rowLockTime, &next, pgx.RowTo[string],
		"SELECT coalesce(next_server, '') FROM instance WHERE id = $1", c.ID); err != nil {
		return err
	}
	t.countPlaces(map[string]int{next: -1, server: 1})
	t.write("adopt the former place", `WITH inserted AS (
			UPDATE instance SET next_server = $2, next_dedicated_id = $3, next_launcher = $4, other_admin_password = $5,
				moved_at = $6
			WHERE id = $1 RETURNING id, CASE $2 WHEN '' THEN 'dedicated' ELSE 'shared' END AS location_kind,
				next_server AS server, next_dedicated_id AS dedicated_id, next_launcher AS launcher, database_name)
		`+recordOfInstance, c.ID, server, dedicatedID, launcher, c.AdminPassword, moved)
	t.recordAccountsAt(c.ID, server)
	return nil
}

// countPlaces changes how many instances are counted on shared servers.
func (t *Tx) countPlaces(places map[string]int) {
	delete(places, DedicatedServers)
	for _, name := range slices.Sorted(maps.Keys(places)) {
		t.write("count the instance", `INSERT INTO server (name, instances) VALUES ($1, greatest($2, 0))
			ON CONFLICT (name) DO UPDATE SET instances = greatest(server.instances + $2, 0)`, name, places[name])
	}
}

// recordAccountsAt records that the accounts of an instance are on a shared server too.
func (t *Tx) recordAccountsAt(instanceID, server string) {
	if server == DedicatedServers {
		return
	}
	t.write("record the accounts there", `INSERT INTO resource (kind, server, name, instance_id)
		SELECT 'account', $2, a.account, $1 FROM (
			SELECT account FROM binding WHERE instance_id = $1
			UNION SELECT account FROM retired_account WHERE instance_id = $1) AS a ON CONFLICT DO NOTHING`, instanceID, server)
}

// Freeze records since when an instance is frozen, unless it is.
func (t *Tx) Freeze(id string, since time.Time) {
	t.write("freeze the instance", "UPDATE instance SET frozen_since = $2 WHERE id = $1 AND frozen_since IS NULL", id,
		since)
}

// AdoptAdminPassword records the encrypted passwords of a copy, because the dedicated server's password was changed
// since.
func (t *Tx) AdoptAdminPassword(c InstanceCopy) {
	t.write("adopt the admin password", `UPDATE instance SET admin_password = $2, next_admin_password = $3 WHERE id = $1`,
		c.ID, c.AdminPassword, c.NextAdminPassword)
}

// AdoptAccount records an account without a binding, on an instance's shared or dedicated server, as retired: it is
// dropped with the instance.
func (t *Tx) AdoptAccount(instanceID, account string) {
	t.write("record the account", `INSERT INTO resource (kind, server, name, instance_id)
		SELECT 'account', server, $2, id FROM instance WHERE id = $1 AND location_kind = 'shared' ON CONFLICT DO NOTHING`,
		instanceID, account)
	t.write("retire the account", `INSERT INTO retired_account (account, instance_id, grants_due)
		SELECT $2, id, false FROM instance WHERE id = $1 ON CONFLICT DO NOTHING`, instanceID, account)
}

// MarkDue records that an account may have other privileges than it should.
func (t *Tx) MarkDue(account string) {
	t.changeAccounts("mark", "SET grants_due = true WHERE account = $1", account)
}

// Passwords decrypts the passwords of a copy: the admin account's, and the one that it is being changed to, or "".
func (s Recovery) Passwords(c InstanceCopy) (admin, next string, err error) {
	admin, err = s.keys.open(c.AdminPassword, instancePlace(c.ID))
	if err == nil {
		next, err = s.keys.open(c.NextAdminPassword, instancePlace(c.ID))
	}
	if err != nil {
		err = fmt.Errorf("decrypt the admin password of instance %q: %w", c.ID, err)
	}
	return admin, next, err
}

// InstanceCopy is a ready instance, or what is retained of a deleted one, as stored on the server that holds it. If
// PostgreSQL is restored from an older backup, the instance is restored from this copy. Passwords are encrypted, as in
// PostgreSQL.
type InstanceCopy struct {
	ID                 string          `json:"instance_id"`
	ServiceID          string          `json:"service_id"`
	PlanID             string          `json:"plan_id"`
	OrganizationGUID   string          `json:"organization_guid"`
	SpaceGUID          string          `json:"space_guid"`
	Parameters         json.RawMessage `json:"parameters"`
	Context            json.RawMessage `json:"context"`
	MaintenanceVersion string          `json:"maintenance_version"`
	DedicatedID        string          `json:"dedicated_id,omitempty"` // "" on a shared server
	Launcher           string          `json:"launcher,omitempty"`     // "" on a shared server
	Database           string          `json:"database"`
	AdminPassword      []byte          `json:"admin_password,omitempty"`
	NextAdminPassword  []byte          `json:"next_admin_password,omitempty"`
	CreatedAt          time.Time       `json:"created_at"`
	// MovedAt is when the data was moved here; nil once the place where it was before is gone.
	MovedAt *time.Time `json:"moved_at,omitempty"`
	// FrozenSince is that of the instance, or of what is retained of it.
	FrozenSince *time.Time `json:"frozen_since,omitempty"`

	Retained *RetainedCopy `json:"retained,omitempty" db:"-"` // nil unless the instance was deleted, and its data is kept
}

// RetainedCopy is what the copy of a deleted instance has besides.
type RetainedCopy struct {
	ID        string            `json:"id"` // of the retained data
	Name      string            `json:"name,omitempty"`
	Platform  string            `json:"platform,omitempty"`
	Bytes     *int64            `json:"bytes,omitempty"`
	DeletedAt time.Time         `json:"deleted_at"`
	Until     time.Time         `json:"until"`
	Accounts  map[string]string `json:"accounts"` // the roles of the accounts that are kept
}

// BootstrapSum is the parameter that copies of an instance have in place of bootstrap, whose SQL has run and may be
// longer than what Kubernetes keeps beside a server: its checksum, by which a repeated request for the instance is
// recognized.
const BootstrapSum = "bootstrap_sha256"

const copyColumns = `i.id, i.service_id, i.plan_id, i.organization_guid, i.space_guid,
	i.parameters - 'bootstrap' || CASE WHEN i.parameters ->> 'bootstrap' IS NULL THEN '{}' ELSE jsonb_build_object(
		'` + BootstrapSum + `', encode(sha256(convert_to(i.parameters ->> 'bootstrap', 'UTF8')), 'hex')) END,
	i.context, i.maintenance_version, i.dedicated_id, ` + launcherColumn + `, i.database_name,
	i.admin_password, i.next_admin_password, i.created_at, i.moved_at, i.frozen_since`

var scanCopy = pgx.RowToStructByPos[InstanceCopy]

// EachCopy calls fn with pages of the ready instances on a shared server, or on all dedicated servers for
// DedicatedServers.
func (s Recovery) EachCopy(ctx context.Context, server string, fn func([]InstanceCopy) error) error {
	kind, column := DatabaseResource, "database_name"
	if server == DedicatedServers {
		kind, column = DedicatedResource, "dedicated_id"
	}
	return s.eachNames(ctx, kind, server, func(names []string) error {
		page, err := allRows(ctx, s.pool, scanCopy, "SELECT "+copyColumns+` FROM resource r
			JOIN instance i ON i.id = r.instance_id AND i.`+column+` = r.name AND i.server = r.server AND i.state = 'ready'
			WHERE r.kind = $1 AND r.server = $2 AND r.name = ANY ($3)`, kind, server, names)
		if err != nil {
			return err
		}
		return fn(page)
	})
}

// CopiesSince returns the ready instances on a shared server that were created or changed since that time.
func (s Recovery) CopiesSince(ctx context.Context, server string, since time.Time) ([]InstanceCopy, error) {
	return allRows(ctx, s.pool, scanCopy, `SELECT `+copyColumns+` FROM instance i WHERE i.id IN (
			SELECT instance_id FROM task WHERE finished_at >= $2
			AND (kind IN ('provision', 'update') AND state = 'succeeded' OR kind = 'restore'))
		AND i.server = $1 AND i.state = 'ready'`, server, since)
}

// ArrivingCopy is the copy of an instance as it will be once it is recorded that its data has been moved, and that it
// has that plan.
func (s Recovery) ArrivingCopy(ctx context.Context, id, planID, maintenanceVersion string) (InstanceCopy, error) {
	return oneRow(ctx, s.pool, scanCopy, "SELECT "+copyColumns+` FROM (SELECT id, service_id, $2::text AS plan_id,
			organization_guid, space_guid, parameters, context, $3::text AS maintenance_version,
			next_dedicated_id AS dedicated_id, next_launcher AS launcher,
			CASE next_dedicated_id WHEN '' THEN 'shared' ELSE 'dedicated' END AS location_kind, database_name,
			other_admin_password AS admin_password, NULL::bytea AS next_admin_password, created_at, now() AS moved_at,
			frozen_since
		FROM instance WHERE id = $1 AND next_server IS NOT NULL AND moved_at IS NULL) AS i`, id, planID, maintenanceVersion)
}

// RetainedCopies returns copies of what was retained since that time on a shared server, or on all dedicated servers
// for DedicatedServers. Data that is being dropped, or that an instance is being created from, is left out.
func (s Recovery) RetainedCopies(ctx context.Context, server string, since time.Time) ([]InstanceCopy, error) {
	return allRows(ctx, s.pool, scanRetainedCopy, `SELECT i.instance_id, i.service_id, i.plan_id, i.organization_guid,
			i.space_guid, i.dedicated_id, `+launcherColumn+`, i.database_name, i.admin_password, i.next_admin_password,
			i.id, i.name, i.platform, i.bytes, i.deleted_at, i.until,
			(SELECT coalesce(json_object_agg(a.account, a.role), '{}') FROM retained_account a WHERE a.retained_id = i.id),
			i.frozen_since
		FROM retained i WHERE i.server = $1 AND i.deleted_at >= $2 AND i.adopted_by IS NULL AND i.purged_since IS NULL
		ORDER BY i.database_name`, server, since)
}

func scanRetainedCopy(row pgx.CollectableRow) (c InstanceCopy, err error) {
	var r RetainedCopy
	err = row.Scan(&c.ID, &c.ServiceID, &c.PlanID, &c.OrganizationGUID, &c.SpaceGUID, &c.DedicatedID, &c.Launcher,
		&c.Database, &c.AdminPassword, &c.NextAdminPassword, &r.ID, &r.Name, &r.Platform, &r.Bytes, &r.DeletedAt, &r.Until,
		&r.Accounts, &c.FrozenSince)
	c.Retained, c.CreatedAt = &r, r.DeletedAt
	return c, err
}

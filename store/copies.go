package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

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
	// MovedAt is when the data were moved here; nil once the place where they were before is gone.
	MovedAt *time.Time `json:"moved_at,omitempty"`

	Retained *RetainedCopy `json:"retained,omitempty" db:"-"` // nil unless the instance was deleted, and its data are kept
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

const copyColumns = `i.id, i.service_id, i.plan_id, i.organization_guid, i.space_guid, i.parameters, i.context,
	i.maintenance_version, i.dedicated_id, ` + launcherColumn + `, i.database_name,
	i.admin_password, i.next_admin_password, i.created_at, i.moved_at`

var scanCopy = pgx.RowToStructByPos[InstanceCopy]

const copyPage = 500

// EachCopy calls fn with pages of the ready instances on a shared server, or on all dedicated servers for
// DedicatedServers.
func (s Recovery) EachCopy(ctx context.Context, server string, fn func([]InstanceCopy) error) error {
	kind, column := DatabaseResource, "database_name"
	if server == DedicatedServers {
		kind, column = DedicatedResource, "dedicated_id"
	}
	for last := ""; ; {
		names, err := allRows(ctx, s.pool, pgx.RowTo[string], `SELECT name FROM resource
			WHERE kind = $1 AND server = $2 AND name > $3 ORDER BY name LIMIT $4`, kind, server, last, copyPage)
		if err != nil || len(names) == 0 {
			return err
		}
		last = names[len(names)-1]
		page, err := allRows(ctx, s.pool, scanCopy, "SELECT "+copyColumns+` FROM resource r
			JOIN instance i ON i.id = r.instance_id AND i.`+column+` = r.name AND i.server = r.server AND i.state = 'ready'
			WHERE r.kind = $1 AND r.server = $2 AND r.name = ANY ($3)`, kind, server, names)
		if err != nil {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
	}
}

// CopiesSince returns the ready instances on a shared server that were created or changed since that time.
func (s Recovery) CopiesSince(ctx context.Context, server string, since time.Time) ([]InstanceCopy, error) {
	return allRows(ctx, s.pool, scanCopy, `SELECT `+copyColumns+` FROM instance i WHERE i.id IN (
			SELECT instance_id FROM task WHERE finished_at >= $2 AND kind IN ('provision', 'update') AND state = 'succeeded')
		AND i.server = $1 AND i.state = 'ready'`, server, since)
}

// RetainedCopies returns copies of what was retained since that time on a shared server, or on all dedicated servers
// for DedicatedServers. Data that are being dropped, or that an instance is being created from, are left out.
func (s Recovery) RetainedCopies(ctx context.Context, server string, since time.Time) ([]InstanceCopy, error) {
	return allRows(ctx, s.pool, scanRetainedCopy, `SELECT i.instance_id, i.service_id, i.plan_id, i.organization_guid,
			i.space_guid, i.dedicated_id, `+launcherColumn+`, i.database_name, i.admin_password, i.next_admin_password,
			i.id, i.name, i.platform, i.bytes, i.deleted_at, i.until,
			(SELECT coalesce(json_object_agg(a.account, a.role), '{}') FROM retained_account a WHERE a.retained_id = i.id)
		FROM retained i WHERE i.server = $1 AND i.deleted_at >= $2 AND i.adopted_by IS NULL AND i.purged_since IS NULL
		ORDER BY i.database_name`, server, since)
}

func scanRetainedCopy(row pgx.CollectableRow) (c InstanceCopy, err error) {
	var r RetainedCopy
	err = row.Scan(&c.ID, &c.ServiceID, &c.PlanID, &c.OrganizationGUID, &c.SpaceGUID, &c.DedicatedID, &c.Launcher,
		&c.Database, &c.AdminPassword, &c.NextAdminPassword, &r.ID, &r.Name, &r.Platform, &r.Bytes, &r.DeletedAt, &r.Until,
		&r.Accounts)
	c.Retained, c.CreatedAt = &r, r.DeletedAt
	return c, err
}

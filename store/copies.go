package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"
)

// InstanceCopy is a ready instance, as stored on the server that holds it. If PostgreSQL is restored from an older
// backup, the instance is restored from this copy. Passwords are encrypted, as in PostgreSQL.
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
}

const copyColumns = `i.id, i.service_id, i.plan_id, i.organization_guid, i.space_guid, i.parameters, i.context,
	i.maintenance_version, i.dedicated_id, ` + launcherColumn + `, i.database_name,
	i.admin_password, i.next_admin_password, i.created_at`

var scanCopy = pgx.RowToStructByPos[InstanceCopy]

const copyPage = 500

// EachCopy calls fn with pages of the ready instances on a shared server, or on all dedicated servers for
// DedicatedServers.
func (s *Store) EachCopy(ctx context.Context, server string, fn func([]InstanceCopy) error) error {
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
			JOIN instance i ON i.id = r.instance_id AND i.`+column+` = r.name AND i.state = 'ready'
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
func (s *Store) CopiesSince(ctx context.Context, server string, since time.Time) ([]InstanceCopy, error) {
	return allRows(ctx, s.pool, scanCopy, `SELECT `+copyColumns+` FROM instance i WHERE i.id IN (
			SELECT instance_id FROM task WHERE finished_at >= $2 AND kind IN ('provision', 'update') AND state = 'succeeded')
		AND i.server = $1 AND i.state = 'ready'`, server, since)
}

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Kinds of resources.
const (
	DatabaseResource  = "database"         // on a shared server
	AccountResource   = "account"          // on a shared server
	DedicatedResource = "dedicated server" // with its databases and accounts
)

// Resource is something that this broker was ever to make on a server, and has not forgotten since.
type Resource struct {
	Kind       string
	Server     string // the shared server's name, "" for a dedicated server
	Name       string
	InstanceID string
	BindingID  string        // of an account that a binding still has, else ""
	Age        time.Duration // since it was recorded
	Live       bool          // an instance, a binding or a retired account still is it; once that ends, it is for good
	// Expected says that it must be there: its instance, and an account's binding, is ready and no task in progress
	// could be changing that.
	Expected bool
}

// resources yields the columns of Resource.
const resources = `SELECT r.kind, r.server, r.name, r.instance_id, coalesce(b.id, '') AS binding_id,
		greatest(now() - r.recorded_at, '0'::interval) AS age, i.id IS NOT NULL AS live,
		coalesce(i.state = 'ready' AND (r.kind <> 'account' OR b.state = 'ready'), false) AND NOT EXISTS (
			SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id IN ('', b.id) AND t.state = 'in progress')
			AS expected
	FROM resource r
	LEFT JOIN binding b ON r.kind = 'account' AND b.account = r.name
	LEFT JOIN retired_account a ON r.kind = 'account' AND a.account = r.name
	LEFT JOIN instance i ON i.id = coalesce(b.instance_id, a.instance_id, r.instance_id) AND CASE r.kind
		WHEN 'database' THEN i.database_name = r.name
		WHEN 'dedicated server' THEN i.dedicated_id = r.name
		ELSE b.id IS NOT NULL OR a.account IS NOT NULL END`

// Resources lists all resources, as they are recorded at one moment.
func (s *Store) Resources(ctx context.Context) ([]Resource, error) {
	all, err := allRows(ctx, s.pool, pgx.RowToStructByPos[Resource], resources)
	return all, explainOldSchema(err)
}

// explainOldSchema says what to do where a table is missing.
// https://www.postgresql.org/docs/current/errcodes-appendix.html
func explainOldSchema(err error) error {
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == "42P01" {
		return fmt.Errorf("the schema is older than this program; `mysql-broker migrate` brings it up to date: %w", err)
	}
	return err
}

// Resource reads one resource, or returns ErrNotFound.
func (s *Store) Resource(ctx context.Context, kind, server, name string) (Resource, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[Resource],
		resources+" WHERE r.kind = $1 AND r.server = $2 AND r.name = $3", kind, server, name)
}

// ResourceKey tells resources apart.
type ResourceKey struct{ Kind, Server, Name string }

// ForgetResources forgets those of the resources that are not live, and says how many. The caller has seen that they
// are not on their servers.
func (s *Store) ForgetResources(ctx context.Context, gone []ResourceKey) (int64, error) {
	kinds, servers, names := make([]string, len(gone)), make([]string, len(gone)), make([]string, len(gone))
	for i, r := range gone {
		kinds[i], servers[i], names[i] = r.Kind, r.Server, r.Name
	}
	tag, err := s.db.Exec(ctx, `DELETE FROM resource WHERE (kind, server, name) IN (
		SELECT kind, server, name FROM (`+resources+`) AS r
			JOIN unnest($1::text[], $2::text[], $3::text[]) AS gone (kind, server, name) USING (kind, server, name)
		WHERE NOT live)`, kinds, servers, names)
	return tag.RowsAffected(), err
}

// Abandoned is an instance, or a binding of a ready one, that is half-way while no task is at it: its deletion was
// given up or, as tasks and states change together, it should not be.
type Abandoned struct {
	InstanceID string
	BindingID  string // "" for the instance itself
	Age        time.Duration
}

// Abandoned lists what is left half-way for ever.
func (s *Store) Abandoned(ctx context.Context) ([]Abandoned, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[Abandoned], `
		SELECT instance_id, binding_id, greatest(now() - created_at, '0'::interval) FROM (
			SELECT id AS instance_id, '' AS binding_id, created_at FROM instance
				WHERE state IN ('creating', 'delete failed')
			UNION ALL SELECT b.instance_id, b.id, b.created_at FROM binding b JOIN instance i ON i.id = b.instance_id
				WHERE b.state IN ('creating', 'ending') AND i.state = 'ready') AS half
		WHERE NOT EXISTS (SELECT FROM task t WHERE t.state = 'in progress' AND t.instance_id = half.instance_id
			AND t.binding_id IN ('', half.binding_id))`)
}

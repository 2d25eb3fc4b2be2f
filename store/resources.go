package store

import (
	"context"
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
	// Failed says of a database or a dedicated server that its creation failed: as a rule, it is not there then.
	Failed   bool
	SeenGone bool // ForgetResources was told of it, and RememberResources not since
}

// recordOfInstance is the statement that records what an instance that was just inserted (the rows `inserted`) has on a
// server, or will have: a database on a shared server, or a server of its own. It goes with the statement that inserts
// the instance, so that nothing is ever made that is not on record.
const recordOfInstance = `INSERT INTO resource (kind, server, name, instance_id)
	SELECT CASE WHEN dedicated_id = '' THEN 'database' ELSE 'dedicated server' END, server,
		CASE WHEN dedicated_id = '' THEN database_name ELSE dedicated_id END, id
	FROM inserted ON CONFLICT DO NOTHING`

// recordOfBinding is recordOfInstance for the account of a binding, which is recorded where the server is shared: on a
// dedicated one it goes with the server.
const recordOfBinding = `INSERT INTO resource (kind, server, name, instance_id)
	SELECT 'account', i.server, inserted.account, i.id FROM inserted JOIN instance i ON i.id = inserted.instance_id
	WHERE i.server <> '' ON CONFLICT DO NOTHING`

// resourcesIn yields the columns of Resource for some of the table.
func resourcesIn(some string) string {
	return `SELECT r.kind, r.server, r.name, r.instance_id, coalesce(b.id, '') AS binding_id,
		greatest(now() - r.recorded_at, '0'::interval) AS age, i.id IS NOT NULL AS live,
		coalesce(i.state = 'ready' AND (r.kind <> 'account' OR b.state = 'ready') AND CASE r.kind
			WHEN 'dedicated server' THEN i.dedicated_id = r.name ELSE i.server = r.server END, false) AND NOT EXISTS (
			SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id IN ('', b.id) AND t.state = 'in progress')
			AS expected,
		coalesce(i.state = 'create failed', false) AND r.kind <> 'account' AND NOT EXISTS (
			SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id = '' AND t.state = 'in progress') AS failed,
		r.gone_since IS NOT NULL AS seen_gone
	FROM ` + some + ` AS r
	LEFT JOIN binding b ON r.kind = 'account' AND b.account = r.name
	LEFT JOIN retired_account a ON r.kind = 'account' AND a.account = r.name
	LEFT JOIN instance i ON i.id = coalesce(b.instance_id, a.instance_id, r.instance_id) AND CASE r.kind
		WHEN 'database' THEN i.database_name = r.name AND r.server IN (i.server, i.next_server)
		WHEN 'dedicated server' THEN r.name IN (i.dedicated_id, i.next_dedicated_id)
		ELSE (b.id IS NOT NULL OR a.account IS NOT NULL) AND r.server IN (i.server, i.next_server) END`
}

// resourcePage is how many resources are read at a time: few enough for index lookups to be the best way to what is
// recorded of them, and for one statement never to keep a busy server from its work.
const resourcePage = 1000

// EachResource calls fn with the resources of a shared server, or the dedicated servers ("") themselves, some at a
// time: databases before accounts, in the order of their names. Each is as it was recorded at some moment since the
// call.
func (s *Store) EachResource(ctx context.Context, server string, fn func([]Resource) error) error {
	query := resourcesIn(`(SELECT * FROM resource WHERE kind = $1 AND server = $2 AND name > $3
		ORDER BY name LIMIT $4)`) + " ORDER BY r.name"
	for _, kind := range []string{DatabaseResource, AccountResource, DedicatedResource} {
		for last := ""; ; {
			page, err := allRows(ctx, s.pool, pgx.RowToStructByPos[Resource], query, kind, server, last, resourcePage)
			if err != nil {
				return explainOldSchema(err)
			}
			if len(page) == 0 {
				break
			}
			if err := fn(page); err != nil {
				return err
			}
			last = page[len(page)-1].Name
		}
	}
	return nil
}

// ResourceServers lists the servers that there are resources of, "" for dedicated servers. It goes from one to the next
// in the index: https://wiki.postgresql.org/wiki/Loose_indexscan
func (s *Store) ResourceServers(ctx context.Context) ([]string, error) {
	all, err := allRows(ctx, s.pool, pgx.RowTo[string], `WITH RECURSIVE used AS (
		(SELECT kind, server FROM resource ORDER BY kind, server LIMIT 1)
		UNION ALL SELECT next.kind, next.server FROM used, LATERAL (SELECT kind, server FROM resource
			WHERE (kind, server) > (used.kind, used.server) ORDER BY kind, server LIMIT 1) AS next)
		SELECT DISTINCT server FROM used`)
	return all, explainOldSchema(err)
}

// Resource reads one resource, or returns ErrNotFound.
func (s *Store) Resource(ctx context.Context, kind, server, name string) (Resource, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[Resource],
		resourcesIn("resource")+" WHERE r.kind = $1 AND r.server = $2 AND r.name = $3", kind, server, name)
}

// ResourceKey tells resources apart.
type ResourceKey struct{ Kind, Server, Name string }

// ForgetResources forgets those of the resources that are not live and that it was told of for longer than keep, with
// no RememberResources since, and says how many. The caller has seen that they are not on their servers.
func (s *Store) ForgetResources(ctx context.Context, gone []ResourceKey, keep time.Duration) (int64, error) {
	tag, err := s.eachDead(ctx, "DELETE FROM resource r USING dead WHERE r.gone_since <= now() - $4::interval", gone, keep)
	if err != nil {
		return 0, err
	}
	_, err = s.eachDead(ctx, "UPDATE resource r SET gone_since = now() FROM dead WHERE r.gone_since IS NULL", gone)
	return tag.RowsAffected(), err
}

// RememberResources takes back what ForgetResources was told of resources that are on their servers after all.
func (s *Store) RememberResources(ctx context.Context, there []ResourceKey) error {
	_, err := s.eachDead(ctx, "UPDATE resource r SET gone_since = NULL FROM dead WHERE r.gone_since IS NOT NULL", there)
	return err
}

// eachDead runs change on those of the resources that are not live.
func (s *Store) eachDead(ctx context.Context, change string, keys []ResourceKey,
	more ...any) (pgconn.CommandTag, error) {
	kinds, servers, names := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, r := range keys {
		kinds[i], servers[i], names[i] = r.Kind, r.Server, r.Name
	}
	listed := `(SELECT resource.* FROM resource
		JOIN unnest($1::text[], $2::text[], $3::text[]) AS listed (kind, server, name) USING (kind, server, name))`
	return s.db.Exec(ctx, "WITH dead AS (SELECT * FROM ("+resourcesIn(listed)+") AS r WHERE NOT live) "+change+
		" AND (r.kind, r.server, r.name) = (dead.kind, dead.server, dead.name)",
		append([]any{kinds, servers, names}, more...)...)
}

// Abandoned is an instance, or a binding of a ready one, that is half-way while no task is at it: its deletion was
// given up or, as tasks and states change together, it should not be.
type Abandoned struct {
	InstanceID string
	BindingID  string // "" for the instance itself
	Age        time.Duration
}

// scanTime bounds a statement that reads whole tables, for which nobody waits.
const scanTime = time.Minute

// Abandoned lists what is left half-way for ever. Its cost grows with the number of rows: an index on the state would
// make each change of it dearer, and those are what users wait for.
// https://www.postgresql.org/docs/current/storage-hot.html
func (s *Store) Abandoned(ctx context.Context) ([]Abandoned, error) {
	return allRowsWithin(ctx, scanTime, s.pool, pgx.RowToStructByPos[Abandoned], `
		SELECT instance_id, binding_id, greatest(now() - created_at, '0'::interval) FROM (
			SELECT id AS instance_id, '' AS binding_id, created_at FROM instance
				WHERE state IN ('creating', 'delete failed')
			UNION ALL SELECT b.instance_id, b.id, b.created_at FROM binding b JOIN instance i ON i.id = b.instance_id
				WHERE b.state IN ('creating', 'ending') AND i.state = 'ready') AS half
		WHERE NOT EXISTS (SELECT FROM task t WHERE t.state = 'in progress' AND t.instance_id = half.instance_id
			AND t.binding_id IN ('', half.binding_id))`)
}

// Deletion is one of an instance on a shared server that was asked for and has not come to its end.
type Deletion struct {
	InstanceID string
	Database   string
	Age        time.Duration // since it was asked for first
}

// Deletions lists those of a shared server that were asked for longer ago than age: in progress, or failed and to be
// asked for again. Like Abandoned, it reads whole tables.
func (s *Store) Deletions(ctx context.Context, server string, age time.Duration) ([]Deletion, error) {
	return allRowsWithin(ctx, scanTime, s.pool, pgx.RowToStructByPos[Deletion], `
		SELECT i.id, i.database_name, now() - min(t.created_at) FROM instance i
		JOIN task t ON t.instance_id = i.id AND t.binding_id = '' AND t.kind = 'deprovision'
		WHERE i.server = $1 GROUP BY i.id
		HAVING min(t.created_at) <= now() - $2::interval AND (i.state = 'delete failed' OR bool_or(t.state = 'in progress'))
		ORDER BY i.id`, server, age)
}

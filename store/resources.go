package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Resources records databases, accounts and servers until they are known to be gone.
type Resources struct{ *database }

// Kinds of resources.
const (
	DatabaseResource  = "database"         // on a shared server
	AccountResource   = "account"          // on a shared server
	DedicatedResource = "dedicated server" // with its databases and accounts
)

// Resource is a database, account or dedicated server that this broker has recorded before it creates it. The record
// lasts until the broker has seen that it does not exist any more.
type Resource struct {
	Kind       string
	Server     string // the shared server's name, "" for a dedicated server
	Name       string
	Launcher   string // of a dedicated server, else ""
	InstanceID string
	BindingID  string        // of an account that a binding still has, else ""
	Age        time.Duration // since it was recorded
	// Live says that an instance, binding, retired account or task still uses it, or that it is retained, or kept for an
	// instance that is frozen.
	Live bool
	// Expected says that the resource must exist: its instance and, for an account, its binding are ready, and no task in
	// progress may change that.
	Expected bool
	// Failed says that the creation of a database or a dedicated server failed: usually it does not exist then.
	Failed   bool
	SeenGone bool // it was passed to Resources.Forget or Tx.SawGone, and not to Resources.Remember since
	// Retained is the id of the data that a deleted instance has left in a database or on a dedicated server, "" for none.
	// They must exist, unless they are being dropped, or SeenGone.
	Retained string
}

// recordOfInstance is the SQL that records the database on a shared server, or the dedicated server, of the instances
// in the rows `inserted`. It is part of the statement that inserts them, so that nothing is created without a record.
const recordOfInstance = `INSERT INTO resource (kind, server, name, instance_id, launcher)
	SELECT CASE location_kind WHEN 'shared' THEN 'database' ELSE 'dedicated server' END, server,
		CASE location_kind WHEN 'shared' THEN database_name ELSE dedicated_id END, id, launcher
	FROM inserted ON CONFLICT DO NOTHING`

// recordOfBinding is recordOfInstance for the account of a binding on a shared server. Accounts on a dedicated server
// end with it and are not recorded.
const recordOfBinding = `INSERT INTO resource (kind, server, name, instance_id)
	SELECT 'account', i.server, inserted.account, i.id FROM inserted JOIN instance i ON i.id = inserted.instance_id
	WHERE i.location_kind = 'shared' ON CONFLICT DO NOTHING`

// keptForFrozen is the SQL for what a restore in place has left beside a frozen instance: earlier data that could not
// be put back, and whose backup may be damaged.
const keptForFrozen = `r.task_id IS NOT NULL AND EXISTS (
	SELECT FROM instance f WHERE f.id = r.instance_id AND f.frozen_since IS NOT NULL
	UNION ALL SELECT FROM retained f WHERE f.instance_id = r.instance_id AND f.frozen_since IS NOT NULL)`

// resourcesIn returns the SQL for the columns of Resource, for the selected rows of the table.
func resourcesIn(some string) string {
	return `SELECT r.kind, r.server, r.name,
		CASE r.kind WHEN 'dedicated server' THEN r.launcher ELSE '' END AS launcher, r.instance_id,
		coalesce(b.id, '') AS binding_id,
		greatest(now() - r.recorded_at, '0'::interval) AS age, i.id IS NOT NULL OR EXISTS (
			SELECT FROM task t WHERE t.state = 'in progress' AND t.id = r.task_id) OR ` + keptForFrozen + ` OR CASE r.kind
			WHEN 'database' THEN EXISTS (SELECT FROM retained k WHERE k.database_name = r.name AND k.server = r.server)
			WHEN 'dedicated server' THEN EXISTS (SELECT FROM retained k
				WHERE k.dedicated_id = r.name AND k.launcher = r.launcher)
			ELSE EXISTS (SELECT FROM retained_account k WHERE k.account = r.name) END AS live,
		coalesce(i.state = 'ready' AND (r.kind <> 'account' OR b.state = 'ready') AND CASE r.kind
			WHEN 'dedicated server' THEN (i.dedicated_id, i.launcher) = (r.name, r.launcher)
			ELSE i.server = r.server END, false) AND NOT EXISTS (
			SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id IN ('', b.id) AND t.state = 'in progress')
			AS expected,
		coalesce(i.state = 'create failed', false) AND r.kind <> 'account' AND NOT EXISTS (
			SELECT FROM task t WHERE t.instance_id = i.id AND t.binding_id = '' AND t.state = 'in progress') AS failed,
		r.gone_since IS NOT NULL AS seen_gone,
		coalesce((SELECT k.id FROM retained k WHERE k.purged_since IS NULL AND CASE r.kind
			WHEN 'database' THEN k.database_name = r.name AND k.server = r.server
			WHEN 'dedicated server' THEN k.dedicated_id = r.name AND k.launcher = r.launcher
			ELSE false END), '') AS retained
	FROM ` + some + ` AS r
	LEFT JOIN binding b ON r.kind = 'account' AND b.account = r.name
	LEFT JOIN retired_account a ON r.kind = 'account' AND a.account = r.name
	LEFT JOIN instance i ON i.id = coalesce(b.instance_id, a.instance_id, r.instance_id) AND CASE r.kind
		WHEN 'database' THEN i.database_name = r.name AND r.server IN (i.server, i.next_server)
		WHEN 'dedicated server' THEN (r.name, r.launcher) IN ((i.dedicated_id, i.launcher),
			(i.next_dedicated_id, i.next_launcher))
		ELSE (b.id IS NOT NULL OR a.account IS NOT NULL) AND r.server IN (i.server, i.next_server) END`
}

// resourcePage is how many resources are read at a time: few enough for PostgreSQL to join them by index lookups, and
// for a statement to be short.
const resourcePage = 1000

// Each calls fn with pages of the resources of a shared server, or with the dedicated servers (""): databases
// before accounts, in the order of their names. Each page is as recorded when it is read.
func (s Resources) Each(ctx context.Context, server string, fn func([]Resource) error) error {
	query := resourcesIn(`(SELECT * FROM resource WHERE kind = $1 AND server = $2 AND name > $3
		ORDER BY name LIMIT $4)`) + " ORDER BY r.name"
	for _, kind := range []string{DatabaseResource, AccountResource, DedicatedResource} {
		if err := eachPage(fn, func(r Resource) string { return r.Name }, func(last string) ([]Resource, error) {
			return allRows(ctx, s.pool, pgx.RowToStructByPos[Resource], query, kind, server, last, resourcePage)
		}); err != nil {
			return err
		}
	}
	return nil
}

// eachNames calls fn with pages of the names of the resources of a kind on a server.
func (s *database) eachNames(ctx context.Context, kind, server string, fn func(names []string) error) error {
	return eachPage(fn, func(name string) string { return name }, func(last string) ([]string, error) {
		return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT name FROM resource
			WHERE kind = $1 AND server = $2 AND name > $3 ORDER BY name LIMIT $4`, kind, server, last, resourcePage)
	})
}

// eachPage calls fn with pages of rows, in the order of their names. read returns those after the last name of the page
// before.
func eachPage[T any](fn func([]T) error, name func(T) string, read func(last string) ([]T, error)) error {
	for last := ""; ; {
		page, err := read(last)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
		last = name(page[len(page)-1])
	}
}

// Servers lists the servers that have resources, "" for dedicated servers. It skips from one to the next in the
// index: https://wiki.postgresql.org/wiki/Loose_indexscan
func (s Resources) Servers(ctx context.Context) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], `WITH RECURSIVE used AS (
		(SELECT kind, server FROM resource ORDER BY kind, server LIMIT 1)
		UNION ALL SELECT next.kind, next.server FROM used, LATERAL (SELECT kind, server FROM resource
			WHERE (kind, server) > (used.kind, used.server) ORDER BY kind, server LIMIT 1) AS next)
		SELECT DISTINCT server FROM used`)
}

// Get reads one resource, or returns ErrNotFound.
func (s Resources) Get(ctx context.Context, kind, server, name string) (Resource, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[Resource],
		resourcesIn("resource")+" WHERE r.kind = $1 AND r.server = $2 AND r.name = $3", kind, server, name)
}

// ResourceKey identifies a resource.
type ResourceKey struct{ Kind, Server, Name string }

// Forget deletes the records of resources that are not live and were first passed to it longer ago than keep,
// unless Resources.Remember was called for them since. It returns how many. The caller has checked that they do not
// exist on their servers.
func (s Resources) Forget(ctx context.Context, gone []ResourceKey, keep time.Duration) (int64, error) {
	forgotten, err := s.eachDead(ctx, "DELETE FROM resource r USING dead WHERE r.gone_since <= now() - $4::interval", gone,
		keep)
	if err != nil {
		return 0, err
	}
	_, err = s.eachDead(ctx, "UPDATE resource r SET gone_since = now() FROM dead WHERE r.gone_since IS NULL", gone)
	return forgotten, err
}

// SawGone records that the database of an instance that is being deleted is not on its server any more.
func (t *Tx) SawGone(server, database string) {
	t.change("record that the database is gone", `UPDATE resource SET gone_since = coalesce(gone_since, now())
		WHERE kind = 'database' AND server = $1 AND name = $2 AND :allowed`, server, database)
}

// Remember undoes Resources.Forget and Tx.SawGone for resources that do exist on their servers.
func (s Resources) Remember(ctx context.Context, there []ResourceKey) error {
	_, err := s.run(ctx, s.pool, "UPDATE resource r SET gone_since = NULL FROM "+theseKeys+
		" WHERE r.gone_since IS NOT NULL AND (r.kind, r.server, r.name) = (these.kind, these.server, these.name)",
		keyColumns(there)...)
	return err
}

// theseKeys is the SQL for the resources that keyColumns returns as the first arguments.
const theseKeys = "unnest($1::text[], $2::text[], $3::text[]) AS these (kind, server, name)"

func keyColumns(keys []ResourceKey) []any {
	kinds, servers, names := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	for i, r := range keys {
		kinds[i], servers[i], names[i] = r.Kind, r.Server, r.Name
	}
	return []any{kinds, servers, names}
}

// eachDead runs change for those of the resources that are not live.
func (s Resources) eachDead(ctx context.Context, change string, keys []ResourceKey,
	more ...any) (changed int64, err error) {
	some := "(SELECT resource.* FROM resource JOIN " + theseKeys + " USING (kind, server, name))"
	return s.run(ctx, s.pool, "WITH dead AS (SELECT * FROM ("+resourcesIn(some)+") AS r WHERE NOT live) "+change+
		" AND (r.kind, r.server, r.name) = (dead.kind, dead.server, dead.name)", append(keyColumns(keys), more...)...)
}

// Abandoned is an instance, or a binding of a ready instance, that is neither complete nor deleted while no task works
// on it. A deletion that failed leaves one; otherwise tasks and states change together.
type Abandoned struct {
	InstanceID string
	BindingID  string // "" for the instance itself
	Age        time.Duration
}

// Abandoned lists all abandoned instances and bindings. It reads whole tables: an index on the state would slow down
// every change of it, for which users wait.
// https://www.postgresql.org/docs/current/storage-hot.html
func (s Resources) Abandoned(ctx context.Context) ([]Abandoned, error) {
	return scanned[Abandoned](ctx, s.pool, `
		SELECT instance_id, binding_id, greatest(now() - created_at, '0'::interval) FROM (
			SELECT id AS instance_id, '' AS binding_id, created_at FROM instance
				WHERE state IN ('creating', 'delete failed')
			UNION ALL SELECT b.instance_id, b.id, b.created_at FROM binding b JOIN instance i ON i.id = b.instance_id
				WHERE b.state IN ('creating', 'ending') AND i.state = 'ready') AS half
		WHERE NOT EXISTS (SELECT FROM task t WHERE t.state = 'in progress' AND t.instance_id = half.instance_id
			AND t.binding_id IN ('', half.binding_id))`)
}

// Deletion is the deletion of an instance on a shared server that was requested and has not succeeded.
type Deletion struct {
	InstanceID string
	Database   string
	Age        time.Duration // since it was first requested
}

// Deletions lists those on a shared server that were requested longer ago than age, and are in progress or have failed.
// Like Abandoned, it reads whole tables.
func (s Resources) Deletions(ctx context.Context, server string, age time.Duration) ([]Deletion, error) {
	return scanned[Deletion](ctx, s.pool, `
		SELECT i.id, i.database_name, now() - min(t.created_at) FROM instance i
		JOIN task t ON t.instance_id = i.id AND t.binding_id = '' AND t.kind = 'deprovision'
		WHERE i.server = $1 GROUP BY i.id
		HAVING min(t.created_at) <= now() - $2::interval AND (i.state = 'delete failed' OR bool_or(t.state = 'in progress'))
		ORDER BY i.id`, server, age)
}

package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// CredHub records what CredHub has of bindings.
type CredHub struct{ *database }

// CredHubEntry is what CredHub has, or may have, of a binding.
type CredHubEntry struct {
	Name       string
	Reader     string
	InstanceID string
	BindingID  string
	Stored     []byte // a hash of what CredHub has, nil if that is not known
	Deleted    bool   // CredHub had nothing of it once, and nothing was to be stored since
}

const hubColumns = "e.name, e.reader, e.instance_id, e.binding_id, e.stored, e.deleted_at IS NOT NULL"

// BeginStore records that it is not known what CredHub has of a binding, because it is about to be stored.
func (s CredHub) BeginStore(ctx context.Context, name string) (attempt int64, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int64], `UPDATE credhub_entry SET stored = NULL, deleted_at = NULL,
		attempt = attempt + 1 WHERE name = $1 RETURNING attempt`, name)
}

// SetStored records the hash of what an attempt has stored. If another one has begun since, CredHub may have
// handled the two in either order: then the entry is due for CredHub.Unchecked.
func (s CredHub) SetStored(ctx context.Context, name string, attempt int64, hash []byte) error {
	return s.exec(ctx, `UPDATE credhub_entry SET stored = CASE WHEN attempt = $2 THEN $3::bytea END,
		checked_at = CASE WHEN attempt = $2 THEN now() ELSE '-infinity' END WHERE name = $1`, name, attempt, hash)
}

// Unchecked lists up to limit entries of ready bindings that were last compared longer ago than age, the oldest
// first, and records that they are compared now. Those compared before PostgreSQL's clock was set back come last.
func (s CredHub) Unchecked(ctx context.Context, age time.Duration, limit int) ([]CredHubEntry, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[CredHubEntry], `UPDATE credhub_entry e SET checked_at = now()
		FROM (SELECT c.name FROM credhub_entry c JOIN binding b ON b.account = c.account
			WHERE c.checked_at NOT BETWEEN now() - $1::interval AND now() + $3::interval AND b.state = 'ready'
			ORDER BY c.checked_at LIMIT $2
			FOR UPDATE OF c SKIP LOCKED) AS due
		WHERE e.name = due.name RETURNING `+hubColumns, age, limit, ClockTolerance)
}

// Check makes an entry due for CredHub.Unchecked, and forgets what CredHub was believed to have.
func (s CredHub) Check(ctx context.Context, name string) error {
	return s.exec(ctx, "UPDATE credhub_entry SET stored = NULL, checked_at = '-infinity' WHERE name = $1", name)
}

// Ended lists up to limit entries whose bindings are gone and that CredHub may still have, those first that have
// waited longest, and records since when the bindings have been gone. After keep, it lists them once more, because a
// delayed request could have stored them again.
func (s CredHub) Ended(ctx context.Context, keep time.Duration, limit int) ([]CredHubEntry, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[CredHubEntry], `UPDATE credhub_entry e
		SET ended_at = coalesce(ended_at, now()), checked_at = now() FROM (SELECT name FROM credhub_entry c
			WHERE NOT EXISTS (SELECT FROM binding b WHERE b.account = c.account)
				AND (ended_at IS NULL OR deleted_at IS NULL OR ended_at <= now() - $1::interval)
			ORDER BY checked_at LIMIT $2 FOR UPDATE SKIP LOCKED) AS due
		WHERE e.name = due.name RETURNING `+hubColumns, keep, limit)
}

// SetDeleted records that CredHub has nothing more of a binding.
func (s CredHub) SetDeleted(ctx context.Context, name string) error {
	return s.exec(ctx, "UPDATE credhub_entry SET stored = NULL, deleted_at = now() WHERE name = $1", name)
}

// Forget is CredHub.SetDeleted, and deletes the record if the binding has been gone for as long as keep.
func (s CredHub) Forget(ctx context.Context, name string, keep time.Duration) error {
	if err := s.SetDeleted(ctx, name); err != nil {
		return err
	}
	return s.exec(ctx, "DELETE FROM credhub_entry WHERE name = $1 AND ended_at <= now() - $2::interval", name, keep)
}

// Paths lists the paths under which CredHub has, or may have, credentials of bindings. It differs from the
// configured one if that was changed.
func (s CredHub) Paths(ctx context.Context) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string],
		"SELECT DISTINCT regexp_replace(name, '/[^/]*/[^/]*$', '') FROM credhub_entry ORDER BY 1")
}

// RecordedCredHub is a record of an entry, for comparisons with CredHub.
type RecordedCredHub struct {
	Name       string
	Reader     string
	Stored     []byte // as in CredHubEntry
	InstanceID string
	BindingID  string
	Ready      bool           // the binding is, and no task changes it
	Ended      *time.Duration // since when the binding has been gone, if CredHub may still have something of it
}

// Each calls fn with pages of all entries, in the order of their names.
func (s CredHub) Each(ctx context.Context, fn func([]RecordedCredHub) error) error {
	return eachPage(fn, func(r RecordedCredHub) string { return r.Name }, func(last string) ([]RecordedCredHub, error) {
		return allRows(ctx, s.pool, pgx.RowToStructByPos[RecordedCredHub], `
			SELECT e.name, e.reader, e.stored, e.instance_id, e.binding_id,
				coalesce(b.state = 'ready', false) AND e.stored IS NOT NULL
				AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = e.instance_id
					AND t.binding_id IN ('', e.binding_id) AND t.state = 'in progress'),
				CASE WHEN e.deleted_at IS NULL THEN now() - e.ended_at END
			FROM credhub_entry e LEFT JOIN binding b ON b.account = e.account
			WHERE e.name > $1 ORDER BY e.name LIMIT $2`, last, resourcePage)
	})
}

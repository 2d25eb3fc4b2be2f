package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// CredHubEntry is what CredHub has, or may have, of a binding.
type CredHubEntry struct {
	Name       string
	Reader     string
	InstanceID string
	BindingID  string
	Stored     []byte // a hash of what CredHub has, nil if that is not known
}

const hubColumns = "e.name, e.reader, e.instance_id, e.binding_id, e.stored"

// BeginCredHubStore records that it is not known what CredHub has of a binding, because it is about to be stored.
func (s *Store) BeginCredHubStore(ctx context.Context, name string) (attempt int64, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int64], `UPDATE credhub_entry SET stored = NULL, attempt = attempt + 1
		WHERE name = $1 RETURNING attempt`, name)
}

// SetCredHubStored records the hash of what an attempt has stored. If another one has begun since, CredHub may have
// handled the two in either order: then the entry is due for UncheckedCredHub.
func (s *Store) SetCredHubStored(ctx context.Context, name string, attempt int64, hash []byte) error {
	_, err := s.db.Exec(ctx, `UPDATE credhub_entry SET stored = CASE WHEN attempt = $2 THEN $3::bytea END,
		checked_at = CASE WHEN attempt = $2 THEN now() ELSE '-infinity' END WHERE name = $1`, name, attempt, hash)
	return err
}

// UncheckedCredHub lists up to limit entries of ready bindings that were last compared longer ago than age, the oldest
// first, and records that they are compared now.
func (s *Store) UncheckedCredHub(ctx context.Context, age time.Duration, limit int) ([]CredHubEntry, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[CredHubEntry], `UPDATE credhub_entry e SET checked_at = now()
		FROM (SELECT c.name FROM credhub_entry c JOIN binding b ON b.account = c.account
			WHERE c.checked_at < now() - $1::interval AND b.state = 'ready' ORDER BY c.checked_at LIMIT $2
			FOR UPDATE OF c SKIP LOCKED) AS due
		WHERE e.name = due.name RETURNING `+hubColumns, age, limit)
}

// CheckCredHub makes an entry due for UncheckedCredHub, and forgets what CredHub was believed to have.
func (s *Store) CheckCredHub(ctx context.Context, name string) error {
	_, err := s.db.Exec(ctx, "UPDATE credhub_entry SET stored = NULL, checked_at = '-infinity' WHERE name = $1", name)
	return err
}

// EndedCredHub lists up to limit entries whose bindings are gone, and records since when.
func (s *Store) EndedCredHub(ctx context.Context, limit int) ([]CredHubEntry, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[CredHubEntry], `UPDATE credhub_entry e
		SET ended_at = coalesce(ended_at, now()) FROM (SELECT name FROM credhub_entry c
			WHERE NOT EXISTS (SELECT FROM binding b WHERE b.account = c.account) ORDER BY ended_at NULLS FIRST LIMIT $1
			FOR UPDATE SKIP LOCKED) AS due
		WHERE e.name = due.name RETURNING `+hubColumns, limit)
}

// ForgetCredHub deletes the record of an entry that CredHub does not have any more, if its binding has been gone for as
// long as keep. A delayed request could have stored it again.
func (s *Store) ForgetCredHub(ctx context.Context, name string, keep time.Duration) error {
	_, err := s.db.Exec(ctx, "DELETE FROM credhub_entry WHERE name = $1 AND ended_at <= now() - $2::interval", name, keep)
	return err
}

// RecordedCredHub is a record of an entry, for comparisons with CredHub.
type RecordedCredHub struct {
	Name       string
	InstanceID string
	BindingID  string
	Ready      bool           // the binding is, and no task changes it
	Ended      *time.Duration // since when the binding has been gone, nil if it is not
}

// EachCredHub calls fn with pages of all entries, in the order of their names.
func (s *Store) EachCredHub(ctx context.Context, fn func([]RecordedCredHub) error) error {
	for last := ""; ; {
		page, err := allRows(ctx, s.pool, pgx.RowToStructByPos[RecordedCredHub], `
			SELECT e.name, e.instance_id, e.binding_id, coalesce(b.state = 'ready', false) AND e.stored IS NOT NULL
				AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = e.instance_id
					AND t.binding_id IN ('', e.binding_id) AND t.state = 'in progress'), now() - e.ended_at
			FROM credhub_entry e LEFT JOIN binding b ON b.account = e.account
			WHERE e.name > $1 ORDER BY e.name LIMIT $2`, last, resourcePage)
		if err != nil || len(page) == 0 {
			return err
		}
		if err := fn(page); err != nil {
			return err
		}
		last = page[len(page)-1].Name
	}
}

package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// OtherPlace is a second place of an instance's data: where they are being moved to or, once they were moved, where
// they were before. What is there is no orphan.
type OtherPlace struct {
	Location      Location
	AdminPassword string     // of a dedicated server
	Moved         *time.Time // when the data were moved; nil while they are being moved
}

// otherColumns are those of an OtherPlace, from the table instance, which is named i. The location is "" if there is
// none.
const otherColumns = `CASE WHEN i.next_server IS NULL THEN '' WHEN i.next_dedicated_id = '' THEN 'shared'
	ELSE 'dedicated' END, coalesce(i.next_server || i.next_dedicated_id, ''), coalesce(i.next_launcher, ''),
	i.other_admin_password, i.moved_at`

// Elsewhere returns the instance as it is at its other place.
func (i Instance) Elsewhere() Instance {
	i.Location, i.AdminPassword, i.NextAdminPassword = i.Other.Location, i.Other.AdminPassword, ""
	i.Endpoint, i.Other, i.Parameters = nil, nil, nil
	return i
}

// Former reports whether the instance's data were moved, and the place where they were still exists.
func (i Instance) Former() bool { return i.Other != nil && i.Other.Moved != nil }

// SetDestination records where the data of an instance are going to be moved to, and what will be there: the database
// or the dedicated server and, on a shared server, the accounts of the bindings and those with the names given. It
// counts the instance on a shared server, which accepts max of them. It returns ErrServerFull if that server is full or
// drained, or if the instance has another place already. The transaction has locked the instance.
func (t *Tx) SetDestination(ctx context.Context, i Instance, to Location, adminPassword string, max int,
	accounts ...string) error {
	var sealed []byte
	if adminPassword != "" {
		var err error
		if sealed, err = t.keys.seal(adminPassword, instancePlace(i.ID)); err != nil {
			return err
		}
	}
	server, dedicatedID, launcher := to.columns()
	if to.Shared() {
		if _, err := t.takePlace(ctx, server, max); err != nil {
			return err
		}
	}
	var id string
	err := read(ctx, t, rowLockTime, &id, pgx.RowTo[string], `UPDATE instance SET next_server = $2,
			next_dedicated_id = $3, next_launcher = $4, other_admin_password = $5, moved_at = NULL
		WHERE id = $1 AND next_server IS NULL RETURNING id`, i.ID, server, dedicatedID, launcher, sealed)
	if errors.Is(err, ErrNotFound) {
		return ErrServerFull
	}
	if err != nil {
		return err
	}
	kind, name := DatabaseResource, i.Database
	if to.Dedicated() {
		kind, name = DedicatedResource, dedicatedID
	}
	t.write("record what will be there", `INSERT INTO resource (kind, server, name, instance_id, launcher)
		SELECT $2::text, $3::text, $4::text, $1::text, $5::text
		UNION ALL SELECT 'account', $3, account, $1, '' FROM (
			SELECT account FROM binding WHERE instance_id = $1
			UNION SELECT unnest($6::text[])) AS a WHERE $3 <> ''
		ON CONFLICT (kind, server, name) DO UPDATE SET instance_id = excluded.instance_id, gone_since = NULL,
			recorded_at = now()`, i.ID, kind, server, name, launcher, append([]string{}, accounts...))
	return nil
}

// SwapPlaces records that the data of an instance have been moved to its other place.
func (t *Tx) SwapPlaces(id string) {
	t.change("record the move", `UPDATE instance SET server = next_server, dedicated_id = next_dedicated_id,
			launcher = next_launcher, admin_password = other_admin_password, next_admin_password = NULL, endpoint = NULL,
			server_flavour = '', server_version = '',
			next_server = server, next_dedicated_id = dedicated_id, next_launcher = launcher,
			other_admin_password = admin_password, moved_at = `+laterOf("$2")+`, updated_at = now()
		WHERE id = $1 AND next_server IS NOT NULL AND moved_at IS NULL AND :allowed`, id, time.Now())
	t.change("check the credentials in CredHub", `UPDATE credhub_entry SET checked_at = '-infinity'
		WHERE instance_id = $1 AND :allowed`, id)
}

// forgetOther deletes the record of an instance's other place and uncounts it there. Accounts that were retired before
// the data were moved from there went with it, except those that exist at the new place too.
const forgetOther = `WITH gone AS (
		UPDATE instance i SET next_server = NULL, next_dedicated_id = NULL, next_launcher = NULL,
			other_admin_password = NULL, moved_at = NULL
		FROM (SELECT id, next_server, moved_at FROM instance WHERE id = $1 AND next_server IS NOT NULL FOR UPDATE) AS was
		WHERE i.id = was.id AND :allowed RETURNING was.id, was.next_server, was.moved_at),
	accounts AS (DELETE FROM retired_account a USING gone
		WHERE a.instance_id = gone.id AND a.retired_at < gone.moved_at AND a.account <> ALL ($2))
	UPDATE server SET instances = instances - 1 FROM gone WHERE name = gone.next_server`

// ForgetDestination undoes SetDestination.
func (t *Tx) ForgetDestination(id string) {
	t.change("forget where the data was to be moved", forgetOther, id, []string{})
}

// ForgetFormer deletes the record of the place where an instance's data were, once nothing of it is left. kept are
// accounts that exist where the data are now.
func (s Instances) ForgetFormer(ctx context.Context, id string, kept ...string) error {
	return s.inTx(ctx, func(tx *Tx) error {
		if _, err := tx.LockInstance(ctx, id); err != nil {
			return err
		}
		tx.change("forget where the data was", forgetOther, id, append([]string{}, kept...))
		return nil
	})
}

// DueFormer lists the instances whose data were moved and that need the place where they were no more: it is older
// than keep, or no binding is left that was created before.
func (s Instances) DueFormer(ctx context.Context, keep time.Duration) ([]Instance, error) {
	return allRows(ctx, s.pool, s.keys.scanInstance, "SELECT "+instanceColumns+` FROM instance i
		WHERE i.moved_at IS NOT NULL AND (i.moved_at <= now() - $1::interval OR NOT EXISTS (
			SELECT FROM binding b WHERE b.instance_id = i.id AND b.created_at < i.moved_at))
		AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = i.id AND t.state = 'in progress')
		ORDER BY i.id`, keep)
}

// FormerBindings counts the bindings of an instance that know only the place where its data were.
func (s Instances) FormerBindings(ctx context.Context, id string) (n int, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int], `SELECT count(*) FROM binding b JOIN instance i ON i.id = b.instance_id
		WHERE i.id = $1 AND b.created_at < i.moved_at`, id)
}

// ListedFormer is the place where the data of an instance were before they were moved, for operators.
type ListedFormer struct {
	Location
	Moved    time.Time
	Bindings int // that know only this place
}

// Former returns the former place of an instance, or ErrNotFound if there is none.
func (s Instances) Former(ctx context.Context, id string) (ListedFormer, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[ListedFormer], `SELECT
			CASE WHEN i.next_dedicated_id = '' THEN 'shared' ELSE 'dedicated' END, i.next_server || i.next_dedicated_id,
			coalesce(i.next_launcher, ''), i.moved_at,
			(SELECT count(*) FROM binding b WHERE b.instance_id = i.id AND b.created_at < i.moved_at)
		FROM instance i WHERE i.id = $1 AND i.moved_at IS NOT NULL`, id)
}

// MoveStats are figures of all moves of data.
type MoveStats struct {
	Moving  int     // instances whose data are being moved
	Oldest  float64 // for how many seconds the first of them has been
	Former  int     // old places that are kept
	Overdue float64 // for how many seconds the most overdue one should have been gone
}

// MoveStats counts moves. Former places are kept for as long as keep.
func (s Instances) MoveStats(ctx context.Context, keep time.Duration) (MoveStats, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[MoveStats], `SELECT count(*) FILTER (WHERE i.moved_at IS NULL),
			coalesce(extract(epoch FROM max(now() - t.created_at) FILTER (WHERE i.moved_at IS NULL)), 0)::float8,
			count(i.moved_at), greatest(coalesce(extract(epoch FROM max(now() - i.moved_at - $1::interval)), 0), 0)::float8
		FROM instance i LEFT JOIN task t ON t.instance_id = i.id AND t.state = 'in progress' AND t.kind = 'update'
		WHERE i.next_server IS NOT NULL`, keep)
}

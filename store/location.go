package store

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// LocationKind says whether an instance shares its server with others.
type LocationKind string

const (
	OnShared    LocationKind = "shared"    // a database on a shared server
	OnDedicated LocationKind = "dedicated" // a dedicated server, which a launcher runs
)

// Location is where the data of an instance live.
type Location struct {
	Kind     LocationKind
	Server   string // the shared server's name, or the dedicated server's id at its launcher
	Launcher string // the launcher of a dedicated server; "" for a shared one
}

// SharedLocation returns the location of a database on the shared server of that name.
func SharedLocation(name string) Location { return Location{Kind: OnShared, Server: name} }

// DedicatedLocation returns the location of the dedicated server that has that id at its launcher.
func DedicatedLocation(launcher, id string) Location {
	return Location{Kind: OnDedicated, Server: id, Launcher: launcher}
}

// Dedicated reports whether the instance has a dedicated server.
func (l Location) Dedicated() bool { return l.Kind == OnDedicated }

// Shared reports whether the instance is a database on a shared server.
func (l Location) Shared() bool { return l.Kind == OnShared }

// DedicatedServers stands for all dedicated servers together, in place of a shared server's name.
const DedicatedServers = ""

// columns returns the values of the columns server, dedicated_id and launcher in the table instance.
func (l Location) columns() (server, dedicatedID, launcher string) {
	if l.Dedicated() {
		return "", l.Server, l.Launcher
	}
	return l.Server, "", ""
}

// locationColumns yields the fields of Location, in their order, from the table instance, which is named i.
const locationColumns = "i.location_kind, i.server || i.dedicated_id, " + launcherColumn

// launcherColumn is "" for a shared server, for which the column has no meaning.
const launcherColumn = "CASE i.location_kind WHEN 'dedicated' THEN i.launcher ELSE '' END"

// Endpoint is where a dedicated server listens, as its launcher reported last.
type Endpoint struct {
	Host          string `json:"host"`
	Port          int    `json:"port"`
	CACertificate []byte `json:"ca_certificate,omitempty"` // PEM
	AdminHost     string `json:"admin_host,omitempty"`     // for the broker, if it differs from Host
	AdminPort     int    `json:"admin_port,omitempty"`     // likewise for Port
}

// serverInstance finds the instance of the dedicated server $1 of the launcher $2.
const serverInstance = `dedicated_id = $1 AND launcher = $2 AND location_kind = 'dedicated' AND id = (
	SELECT instance_id FROM resource WHERE kind = 'dedicated server' AND server = '' AND name = $1)`

// RecordEndpoint records where a dedicated server listens. It does nothing if that is recorded already or the instance
// is being deleted.
func (s Instances) RecordEndpoint(ctx context.Context, at Location, e Endpoint) error {
	return s.exec(ctx, `UPDATE instance SET endpoint = $3 WHERE `+serverInstance+`
		AND endpoint IS DISTINCT FROM $3::jsonb AND NOT EXISTS (SELECT FROM task
			WHERE instance_id = instance.id AND kind = 'deprovision' AND `+notEnded+`)`, at.Server, at.Launcher, e)
}

// ForgetEndpoint removes the recorded endpoint of a dedicated server that is about to be destroyed.
func (s Instances) ForgetEndpoint(ctx context.Context, at Location) error {
	return s.exec(ctx, `UPDATE instance SET endpoint = NULL WHERE `+serverInstance+` AND endpoint IS NOT NULL`,
		at.Server, at.Launcher)
}

// RecordVersion records the flavour and version of a dedicated server.
func (s Instances) RecordVersion(ctx context.Context, at Location, flavour, version string) error {
	return s.exec(ctx, `UPDATE instance SET server_flavour = $3, server_version = $4 WHERE `+serverInstance+`
		AND (server_flavour, server_version) IS DISTINCT FROM ($3, $4)`, at.Server, at.Launcher, flavour, version)
}

// SetVersion records the flavour and version of an instance's dedicated server.
func (t *Tx) SetVersion(id, flavour, version string) {
	t.change("set the server's version", `UPDATE instance SET server_flavour = $2, server_version = $3
		WHERE id = $1 AND :allowed`, id, flavour, version)
}

// SetNextAdminPassword records the password that a dedicated server's admin account will get next.
func (t *Tx) SetNextAdminPassword(id, password string) error {
	sealed, err := t.keys.seal(password, instancePlace(id))
	if err != nil {
		return err
	}
	t.write("record the next admin password", "UPDATE instance SET next_admin_password = $2 WHERE id = $1", id, sealed)
	return nil
}

// AdoptNextAdminPassword records that the admin account has the next password.
func (t *Tx) AdoptNextAdminPassword(id string) {
	t.write("record the new admin password", `UPDATE instance
		SET admin_password = next_admin_password, next_admin_password = NULL
		WHERE id = $1 AND next_admin_password IS NOT NULL`, id)
}

// At returns the instance that a dedicated server belongs to, or ErrNotFound.
func (s Instances) At(ctx context.Context, at Location) (Instance, error) {
	id, err := oneRow(ctx, s.pool, pgx.RowTo[string],
		"SELECT instance_id FROM resource WHERE kind = $1 AND server = '' AND name = $2", DedicatedResource, at.Server)
	if err != nil {
		return Instance{}, err
	}
	i, err := s.Get(ctx, id)
	switch {
	case err != nil:
		return Instance{}, err
	case i.Location == at:
		return i, nil
	case i.Other != nil && i.Other.Location == at:
		return i.Elsewhere(), nil
	}
	return Instance{}, ErrNotFound
}

// Dedicated lists the ids of the instances that have or are getting a dedicated server, except those that can
// only be deleted.
func (s Instances) Dedicated(ctx context.Context) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT id FROM instance
		WHERE location_kind = 'dedicated' AND state IN ('creating', 'ready') ORDER BY id`)
}

// OtherPlace is a second place of an instance's data: where they are being moved to or, once they were moved, where
// they were before. What is there is no orphan.
type OtherPlace struct {
	Location      Location
	AdminPassword string     // of a dedicated server
	Moved         *time.Time // when the data was moved; nil while it is being moved
}

// otherColumns are those of an OtherPlace, from the table instance, which is named i. The location is "" if there is
// none.
const otherColumns = `CASE WHEN i.next_server IS NULL THEN '' WHEN i.next_dedicated_id = '' THEN 'shared'
	ELSE 'dedicated' END, coalesce(i.next_server || i.next_dedicated_id, ''), coalesce(i.next_launcher, ''),
	i.other_admin_password, i.moved_at`

// placeColumns yields the fields of the Location of an OtherPlace, which there is, in their order.
const placeColumns = `CASE i.next_dedicated_id WHEN '' THEN 'shared' ELSE 'dedicated' END,
	i.next_server || i.next_dedicated_id, i.next_launcher`

// Elsewhere returns the instance as it is at its other place.
func (i Instance) Elsewhere() Instance {
	i.Location, i.AdminPassword, i.NextAdminPassword = i.Other.Location, i.Other.AdminPassword, ""
	i.Endpoint, i.Other, i.Parameters = nil, nil, nil
	return i
}

// Former reports whether the instance's data was moved, and the place where it was still exists.
func (i Instance) Former() bool { return i.Other != nil && i.Other.Moved != nil }

// SetDestination records where the data of an instance is going to be moved to, and what will be there: the database
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

// SwapPlaces records that the data of an instance has been moved to its other place.
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
// the data was moved from there went with it, except those that exist at the new place too.
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

// ForgetFormer deletes the record of the place where an instance's data was, once nothing of it is left. kept are
// accounts that exist where the data is now.
func (s Instances) ForgetFormer(ctx context.Context, id string, kept ...string) error {
	return s.inTx(ctx, func(tx *Tx) error {
		if _, err := tx.LockInstance(ctx, id); err != nil {
			return err
		}
		tx.change("forget where the data was", forgetOther, id, append([]string{}, kept...))
		return nil
	})
}

// DueFormer lists the instances whose data was moved and that no longer need the place where it was: it is older
// than keep, or no binding is left that was created before.
func (s Instances) DueFormer(ctx context.Context, keep time.Duration) ([]Instance, error) {
	return allRows(ctx, s.pool, s.keys.scanInstance, "SELECT "+instanceColumns+` FROM instance i
		WHERE i.moved_at IS NOT NULL AND (i.moved_at <= now() - $1::interval OR NOT EXISTS (
			SELECT FROM binding b WHERE b.instance_id = i.id AND b.created_at < i.moved_at))
		AND NOT EXISTS (SELECT FROM task t WHERE t.instance_id = i.id AND t.state = 'in progress')
		ORDER BY i.id`, keep)
}

// FormerBindings counts the bindings of an instance that know only the place where its data was.
func (s Instances) FormerBindings(ctx context.Context, id string) (n int, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int], `SELECT count(*) FROM binding b JOIN instance i ON i.id = b.instance_id
		WHERE i.id = $1 AND b.created_at < i.moved_at`, id)
}

// ListedFormer is the place where the data of an instance was before it was moved, for operators.
type ListedFormer struct {
	Location
	Moved    time.Time
	Bindings int // that know only this place
}

// Former returns the former place of an instance, or ErrNotFound if there is none.
func (s Instances) Former(ctx context.Context, id string) (ListedFormer, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[ListedFormer], `SELECT `+placeColumns+`, i.moved_at,
			(SELECT count(*) FROM binding b WHERE b.instance_id = i.id AND b.created_at < i.moved_at)
		FROM instance i WHERE i.id = $1 AND i.moved_at IS NOT NULL`, id)
}

// MoveStats are figures of all moves of data.
type MoveStats struct {
	Moving  int     // instances whose data is being moved
	Oldest  float64 // for how many seconds the first of them has been
	Former  int     // old places that are kept
	Overdue float64 // for how many seconds the most overdue one should have been gone
}

// MoveStats counts moves. Former places are kept for as long as keep.
func (s Instances) MoveStats(ctx context.Context, keep time.Duration) (MoveStats, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[MoveStats], `SELECT count(*) FILTER (WHERE i.moved_at IS NULL),
			greatest(extract(epoch FROM max(now() - t.created_at) FILTER (WHERE i.moved_at IS NULL)), 0)::float8,
			count(i.moved_at), greatest(extract(epoch FROM max(now() - i.moved_at - $1::interval)), 0)::float8
		FROM instance i LEFT JOIN task t ON t.instance_id = i.id AND t.state = 'in progress' AND t.kind = 'update'
		WHERE i.next_server IS NOT NULL`, keep)
}

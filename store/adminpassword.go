package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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

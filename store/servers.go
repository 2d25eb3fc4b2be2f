package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// Servers records shared servers: how full they are, and which are drained.
type Servers struct{ *database }

// ServerState is what is recorded of a shared server.
type ServerState struct {
	Name         string
	Instances    int        // that it holds
	DrainedSince *time.Time // nil if it accepts new instances
}

// Drained reports whether the server accepts no new instances.
func (s ServerState) Drained() bool { return s.DrainedSince != nil }

const serverColumns = "name, instances, drained_since"

var scanServer = pgx.RowToStructByPos[ServerState]

// States reads what is recorded of these shared servers, by name. A server that never held an instance and was
// never drained is absent.
func (s Servers) States(ctx context.Context, names []string) (map[string]ServerState, error) {
	all, err := allRows(ctx, s.pool, scanServer, "SELECT "+serverColumns+" FROM server WHERE name = ANY ($1)", names)
	states := make(map[string]ServerState, len(all))
	for _, state := range all {
		states[state.Name] = state
	}
	return states, err
}

// Recorded reads what is recorded of every shared server, configured or not, in the order of their names.
func (s Servers) Recorded(ctx context.Context) ([]ServerState, error) {
	return allRows(ctx, s.pool, scanServer, "SELECT "+serverColumns+" FROM server ORDER BY name")
}

// Drain makes a shared server accept no new instances, if it does not already. Once it has returned, none is recorded
// there, whatever brokers have cached.
func (s Servers) Drain(ctx context.Context, name string) (ServerState, error) {
	var state ServerState
	err := s.inTx(ctx, func(tx *Tx) error {
		tx.Audit("drain", "", "", name)
		return read(ctx, tx, statementTime, &state, scanServer, `INSERT INTO server (name, drained_since) VALUES ($1, now())
			ON CONFLICT (name) DO UPDATE SET drained_since = coalesce(server.drained_since, now())
			RETURNING `+serverColumns, name)
	})
	return state, err
}

// Undrain makes a shared server accept new instances again.
func (s Servers) Undrain(ctx context.Context, name string) error {
	return s.inTx(ctx, func(tx *Tx) error {
		tx.Audit("undrain", "", "", name)
		tx.write("undrain the server",
			"UPDATE server SET drained_since = NULL WHERE name = $1 AND drained_since IS NOT NULL", name)
		return nil
	})
}

// Authorities records the certificate authorities of dedicated servers.
type Authorities struct{ *database }

// Authority is a certificate authority of dedicated servers. Clients must trust all recorded ones.
type Authority struct {
	ID          int
	Certificate string     // PEM
	Key         string     // PEM
	SignsSince  *time.Time // nil if it is only trusted so far
	TakesOver   bool       // servers with a CA of their own get a certificate signed by this one
}

// ErrAuthorityAdded is returned by Authorities.Add if there is already a CA that does not sign yet.
var ErrAuthorityAdded = errors.New("there is a new CA already, which does not sign yet")

const authorityTable = "authority"

func authorityPlace(id string) string { return "authority " + id }

// All returns all authorities, oldest first, and the one that signs; nil if there are none.
func (s Authorities) All(ctx context.Context) (all []Authority, signing *Authority, err error) {
	all, err = allRows(ctx, s.pool, func(row pgx.CollectableRow) (a Authority, err error) {
		var sealed []byte
		if err = row.Scan(&a.ID, &a.Certificate, &sealed, &a.SignsSince, &a.TakesOver); err == nil {
			a.Key, err = s.keys.open(sealed, authorityPlace(strconv.Itoa(a.ID)))
		}
		return a, err
	}, "SELECT id, certificate, key, signs_since, takes_over FROM authority ORDER BY id")
	if err != nil {
		return nil, nil, fmt.Errorf("read the CAs of dedicated servers: %w", err)
	}
	for n, a := range all {
		if a.SignsSince != nil && (signing == nil || a.SignsSince.After(*signing.SignsSince)) {
			signing = &all[n]
		}
	}
	return all, signing, nil
}

// AddFirst records the first authority, which signs at once. It does nothing if there is one already.
func (s Authorities) AddFirst(ctx context.Context, certificate, key string) error {
	sealed, err := s.keys.seal(key, authorityPlace("1"))
	if err != nil {
		return err
	}
	if err := s.exec(ctx, `INSERT INTO authority (id, certificate, key, signs_since)
		SELECT 1, $1, $2, now() WHERE NOT EXISTS (SELECT FROM authority) ON CONFLICT DO NOTHING`, certificate,
		sealed); err != nil {
		return fmt.Errorf("record the CA of dedicated servers: %w", err)
	}
	return nil
}

// Add records another authority, which is trusted and does not sign yet. It returns ErrAuthorityAdded if there
// is such an authority already.
func (s Authorities) Add(ctx context.Context, certificate, key string) error {
	all, _, err := s.All(ctx)
	if err != nil {
		return err
	}
	id := 1
	for _, a := range all {
		if a.SignsSince == nil {
			return ErrAuthorityAdded
		}
		id = a.ID + 1
	}
	sealed, err := s.keys.seal(key, authorityPlace(strconv.Itoa(id)))
	if err != nil {
		return err
	}
	return s.change(ctx, ErrAuthorityAdded, // if another process has just added one
		`INSERT INTO authority (id, certificate, key) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`, id, certificate, sealed)
}

// Promote makes the newest authority sign, also for servers that have a CA of their own.
func (s Authorities) Promote(ctx context.Context) error {
	return s.exec(ctx, `UPDATE authority SET signs_since = coalesce(signs_since, now()), takes_over = true
		WHERE id = (SELECT max(id) FROM authority)`)
}

// Drop removes an authority, which is then no longer trusted.
func (s Authorities) Drop(ctx context.Context, id int) error {
	return s.exec(ctx, "DELETE FROM authority WHERE id = $1", id)
}

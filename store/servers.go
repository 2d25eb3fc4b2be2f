package store

import (
	"context"
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
	return states, explainOldSchema(err)
}

// Recorded reads what is recorded of every shared server, configured or not, in the order of their names.
func (s Servers) Recorded(ctx context.Context) ([]ServerState, error) {
	all, err := allRows(ctx, s.pool, scanServer, "SELECT "+serverColumns+" FROM server ORDER BY name")
	return all, explainOldSchema(err)
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
	return state, explainOldSchema(err)
}

// Undrain makes a shared server accept new instances again.
func (s Servers) Undrain(ctx context.Context, name string) error {
	return explainOldSchema(s.inTx(ctx, func(tx *Tx) error {
		tx.Audit("undrain", "", "", name)
		tx.write("undrain the server",
			"UPDATE server SET drained_since = NULL WHERE name = $1 AND drained_since IS NOT NULL", name)
		return nil
	}))
}

package audit

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// records is what PostgreSQL holds.
type records struct {
	instances []instanceRow
	former    []instanceRow // the places where data was before it was moved, with the state "former"
	bindings  []bindingRow
	retired   []retiredRow
	retained  []instanceRow // what deleted instances have left, with the state "retained"
	stripped  []retiredRow  // the accounts of those; InstanceID is the id of what is retained
}

type instanceRow struct {
	ID, PlanID, State, Kind, Server, Launcher, Database string
	Over                                                bool // its accounts may add no data
}

func (i instanceRow) former() bool { return i.State == "former" }

type bindingRow struct {
	InstanceID, ID, State, Role, Account string
	BeforeMove                           bool // it is older than the move of the data, and so has an account at both places
	Rotated                              bool // its password was replaced since, which ends its account at the former place
}

type retiredRow struct{ InstanceID, Account string }

// Records is the brokers' database. Its connections stay open from one check to the next.
type Records struct {
	pool *pgxpool.Pool
	open func() (*store.Store, error)
	own  *store.Store // for the admin passwords of dedicated servers; nil until one is read
}

// OpenRecords makes no connection yet. The keyset opens admin passwords.
func OpenRecords(t testing.TB, url, keyset string, options ...store.Option) *Records {
	cfg, err := pgxpool.ParseConfig(url)
	require.NoError(t, err)
	for _, apply := range options {
		apply(cfg)
	}
	cfg.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return true } // tests end sessions, and servers
	r := &Records{}
	r.pool, err = pgxpool.NewWithConfig(t.Context(), cfg)
	require.NoError(t, err)
	r.open = func() (*store.Store, error) {
		keys, err := store.ParseKeyset(keyset)
		if err != nil {
			return nil, err
		}
		return store.Open(context.Background(), url, keys, options...)
	}
	t.Cleanup(func() {
		r.pool.Close()
		if r.own != nil {
			r.own.Close()
		}
	})
	return r
}

// readRecords also reports tasks in progress and wrong counters.
func (a *audit) readRecords(ctx context.Context) (r records, err error) {
	pool := a.Records.pool
	var errs [8]error
	r.instances, errs[0] = rows[instanceRow](ctx, pool,
		`SELECT id, plan_id, state, CASE WHEN server = '' THEN 'dedicated' ELSE 'shared' END,
		server || dedicated_id, launcher, database_name, over_since IS NOT NULL FROM instance`)
	r.bindings, errs[1] = rows[bindingRow](ctx, pool, `SELECT b.instance_id, b.id, b.state, b.role, b.account,
		coalesce(b.created_at < i.moved_at, false), EXISTS (SELECT FROM task t WHERE t.instance_id = b.instance_id
			AND t.binding_id = b.id AND t.kind = 'rotate' AND t.state = 'succeeded' AND t.created_at > i.moved_at)
		FROM binding b LEFT JOIN instance i ON i.id = b.instance_id`)
	r.retired, errs[2] = rows[retiredRow](ctx, pool, "SELECT instance_id, account FROM retired_account")
	r.retained, errs[5] = rows[instanceRow](ctx, pool, `SELECT id, plan_id, 'retained', location_kind,
		server || dedicated_id, launcher, database_name, false FROM retained
		WHERE adopted_by IS NULL OR adopted_by IN (SELECT id FROM instance WHERE state <> 'ready')`)
	r.stripped, errs[6] = rows[retiredRow](ctx, pool, "SELECT retained_id, account FROM retained_account")
	r.former, errs[7] = rows[instanceRow](ctx, pool,
		`SELECT id, plan_id, CASE WHEN moved_at IS NULL THEN 'moving' ELSE 'former' END,
		CASE WHEN next_server = '' THEN 'dedicated' ELSE 'shared' END, next_server || next_dedicated_id, next_launcher,
		database_name, false FROM instance WHERE next_server IS NOT NULL`)
	type taskRow struct {
		ID                          int64
		Kind, InstanceID, BindingID string
	}
	tasks, err := rows[taskRow](ctx, pool,
		"SELECT id, kind, instance_id, binding_id FROM task WHERE state = 'in progress'")
	errs[3] = err
	for _, t := range tasks {
		a.report("Task %d, %s of instance %q and binding %q, is still in progress.", t.ID, t.Kind, t.InstanceID, t.BindingID)
	}
	type serverRow struct {
		Name             string
		Recorded, Actual int
	}
	servers, err := rows[serverRow](ctx, pool, `SELECT coalesce(s.name, i.server), coalesce(s.instances, 0),
		count(i.id)::int FROM server s FULL JOIN (SELECT id, server FROM instance WHERE server <> '' UNION ALL
			SELECT id, next_server FROM instance WHERE next_server <> '' UNION ALL
			SELECT id, server FROM retained WHERE server <> '' AND adopted_by IS NULL) i ON i.server = s.name
		GROUP BY s.name, i.server, s.instances`)
	errs[4] = err
	for _, s := range servers {
		if s.Recorded != s.Actual {
			a.report("Server %s is recorded to have %d instances and has %d.", s.Name, s.Recorded, s.Actual)
		}
	}
	return r, errors.Join(append(errs[:], a.checkBackups(ctx, pool))...)
}

// checkFormer reports places that are recorded for a move although none is in progress, and retired accounts that are
// at neither place of an instance.
func (a *audit) checkFormer(r records) {
	for _, i := range r.former {
		if i.State != "former" {
			a.report("Orphan: instance %q is recorded to be moved to %s.", i.ID, i.Server)
		}
	}
	for _, q := range r.retired {
		if !a.retired[q.Account] && r.movedFrom(q.InstanceID) {
			a.report("Missing: account %s of instance %q, at both places.", q.Account, q.InstanceID)
		}
	}
}

// movedFrom reports whether the place is kept where an instance's data was before. Accounts that are retired may be at
// either of its places.
func (r records) movedFrom(id string) bool {
	return slices.ContainsFunc(r.former, func(i instanceRow) bool { return i.ID == id })
}

func rows[T any](ctx context.Context, pool *pgxpool.Pool, query string) ([]T, error) {
	found, err := pool.Query(ctx, query)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(found, pgx.RowToStructByPos[T])
}

func (a *audit) compareInstances(r records) {
	for _, row := range r.instances {
		i := a.reported(row.ID)
		switch {
		case i.State == Gone:
			a.report("Orphan: instance %q is recorded as %s; the platform was told that it is gone.", row.ID, row.State)
		case row.State == "ready" && i.State != Failed:
			if i.PlanID != "" && row.PlanID != i.PlanID {
				a.report("Instance %q is recorded with plan %s instead of %s.", row.ID, row.PlanID, i.PlanID)
			}
		case (row.State == "create failed" || row.State == "delete failed") && i.State == Failed:
		default:
			a.report("Instance %q is recorded as %s; to the platform it %s.", row.ID, row.State, i.State)
		}
	}
	for _, i := range a.Reported.Instances {
		recorded := slices.ContainsFunc(r.instances, func(row instanceRow) bool { return row.ID == i.ID })
		if i.State == Exists && !recorded {
			a.report("Missing: instance %q is not recorded; the platform was told that it exists.", i.ID)
		}
	}
}

func (a *audit) compareBindings(r records) {
	for _, row := range r.bindings {
		b := a.toldBinding(row.InstanceID, row.ID)
		switch {
		case b.State == Gone || b.State == Failed:
			a.report("Orphan: binding %q of instance %q is recorded as %s; to the platform it is %s.",
				row.ID, row.InstanceID, row.State, b.State)
		case row.State != "ready":
			a.report("Binding %q of instance %q is recorded as %s.", row.ID, row.InstanceID, row.State)
		case row.Role != cmp.Or(b.Role, "read-write"):
			a.report("Binding %q of instance %q is recorded as %s; it was asked for as %s.", row.ID, row.InstanceID, row.Role,
				cmp.Or(b.Role, "read-write"))
		}
		if i := slices.IndexFunc(r.instances, func(i instanceRow) bool { return i.ID == row.InstanceID }); i < 0 {
			a.report("Binding %q is recorded of instance %q, which is not.", row.ID, row.InstanceID)
		}
	}
	for _, b := range a.Reported.Bindings {
		if _, recorded := r.binding(b); b.State == Exists && !recorded {
			a.report("Missing: binding %q of instance %q is not recorded; the platform was told that it exists.",
				b.ID, b.InstanceID)
		}
	}
}

func (a *audit) reported(id string) Instance {
	i := slices.IndexFunc(a.Reported.Instances, func(i Instance) bool { return i.ID == id })
	if i < 0 {
		return Instance{ID: id, State: Gone}
	}
	return a.Reported.Instances[i]
}

func (a *audit) toldBinding(instanceID, id string) Binding {
	i := slices.IndexFunc(a.Reported.Bindings, func(b Binding) bool { return b.InstanceID == instanceID && b.ID == id })
	if i < 0 {
		return Binding{InstanceID: instanceID, ID: id, State: Gone}
	}
	return a.Reported.Bindings[i]
}

func (r records) binding(b Binding) (bindingRow, bool) {
	i := slices.IndexFunc(r.bindings, func(row bindingRow) bool {
		return row.InstanceID == b.InstanceID && row.ID == b.ID
	})
	if i < 0 {
		return bindingRow{}, false
	}
	return r.bindings[i], true
}

// living are the instances that must have a database, or a server of their own.
func (r records) living() (living []instanceRow) {
	for _, i := range r.instances {
		if i.State == "ready" {
			living = append(living, i)
		}
	}
	return living
}

// adminPassword decrypts the password of a dedicated server's administrator.
func (a *audit) adminPassword(ctx context.Context, of instanceRow) (_ string, err error) {
	if a.Records.own == nil {
		if a.Records.own, err = a.Records.open(); err != nil {
			return "", err
		}
	}
	i, err := a.Records.own.Instances.Get(ctx, of.ID)
	if err == nil && of.former() {
		return i.Other.AdminPassword, nil
	}
	return i.AdminPassword, err
}

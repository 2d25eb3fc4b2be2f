package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Sessions records the sessions of the dashboard.
type Sessions struct{ *database }

// Insert records a sign-in to the dashboard for its lifetime. The dashboard encrypts it. The statement also
// deletes up to 100 sessions that have ended, so that they do not accumulate.
func (s Sessions) Insert(ctx context.Context, id, sealed []byte, lifetime time.Duration) error {
	return s.exec(ctx, `WITH ended AS (DELETE FROM session WHERE id IN (
			SELECT id FROM session WHERE ends_at <= now() ORDER BY ends_at LIMIT 100 FOR UPDATE SKIP LOCKED))
		INSERT INTO session (id, sealed, ends_at) VALUES ($1, $2, now() + $3)`, id, sealed, lifetime)
}

// Get reads what Sessions.Insert recorded and how long it is still valid, or returns ErrNotFound.
func (s Sessions) Get(ctx context.Context, id []byte) (sealed []byte, left time.Duration, err error) {
	type row struct {
		Sealed []byte
		Left   time.Duration
	}
	found, err := oneRow(ctx, s.pool, pgx.RowToStructByPos[row],
		"SELECT sealed, ends_at - now() FROM session WHERE id = $1 AND ends_at > now()", id)
	return found.Sealed, found.Left, err
}

// Delete deletes a session, if it exists.
func (s Sessions) Delete(ctx context.Context, id []byte) error {
	return s.exec(ctx, "DELETE FROM session WHERE id = $1", id)
}

// Activity is the present state of an instance, its latest operation and its bindings.
type Activity struct {
	State    string // of the instance, "" if there is none of this id
	PlanID   string
	Bindings int64
	Bound    time.Time // when the newest binding was recorded, zero without one
	Ready    int64     // bindings in state Ready
	Latest   Operation // on the instance itself since it was created; ID 0 without one
}

// Operation is what a page of the dashboard shows of a task.
type Operation struct {
	ID          int64
	BindingID   string // "" for the instance's own operations
	Kind        string
	State       string
	Description string // for users
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil while it is in progress
}

// Activity reads the activity of an instance, by one statement that reads few rows.
func (s Reports) Activity(ctx context.Context, instanceID string) (Activity, error) {
	scan := func(row pgx.CollectableRow) (a Activity, err error) {
		t := &a.Latest
		err = row.Scan(&a.State, &a.PlanID, &a.Bindings, &a.Bound, &a.Ready, &t.ID, &t.Kind, &t.State, &t.Description,
			&t.CreatedAt, &t.FinishedAt)
		return a, err
	}
	return oneRow(ctx, s.pool, scan, `SELECT coalesce(i.state, ''), coalesce(i.plan_id, ''), bound.*, coalesce(t.id, 0),
			coalesce(t.kind, ''), coalesce(t.state, ''), coalesce(t.description, ''), coalesce(t.created_at, 'epoch'),
			t.finished_at
		FROM (SELECT count(*), coalesce(max(created_at), 'epoch'), count(*) FILTER (WHERE state = 'ready')
			FROM binding WHERE instance_id = $1) AS bound
		LEFT JOIN instance i ON i.id = $1
		LEFT JOIN LATERAL (SELECT * FROM task WHERE instance_id = $1 AND binding_id = ''
			ORDER BY id DESC LIMIT 1) AS t ON i.id IS NULL OR t.created_at >= i.created_at`, instanceID)
}

// RecentTasks lists the latest operations on an instance and its bindings, the newest first, since a time: ids of
// instances can be reused, and tasks from before its creation belong to an earlier instance.
func (s Reports) RecentTasks(ctx context.Context, instanceID string, since time.Time, limit int) ([]Operation, error) {
	// MATERIALIZED keeps PostgreSQL from walking the whole table backwards to find the few tasks of a quiet instance.
	return allRows(ctx, s.pool, pgx.RowToStructByPos[Operation], `WITH own AS MATERIALIZED (
			SELECT id FROM task WHERE instance_id = $1)
		SELECT id, binding_id, kind, state, description, created_at, finished_at FROM task
		WHERE id IN (SELECT id FROM own ORDER BY id DESC LIMIT $3) AND created_at >= $2 ORDER BY id DESC`,
		instanceID, since, limit)
}

// Bindings lists the bindings of an instance in the order of their creation.
func (s Reports) Bindings(ctx context.Context, instanceID string) ([]ListedBinding, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[ListedBinding], "SELECT "+listedBinding+` FROM binding b
		JOIN instance i ON i.id = b.instance_id WHERE i.id = $1 ORDER BY b.created_at, b.id`, instanceID)
}

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
	InstanceID string
	State      string // of the instance, "" if there is none of this id
	PlanID     string
	Latest     TaskSummary // of the operations on the instance itself since it was created; ID 0 without one
	Bindings   int64
	Bound      time.Time // when the newest binding was recorded, zero without one
	Ready      int64     // bindings in state Ready
}

// Activities reads the activity of instances, in the order of ids, by one statement that reads few rows of each.
func (s Reports) Activities(ctx context.Context, ids []string) ([]Activity, error) {
	return allRows(ctx, s.pool, scanActivity, `SELECT asked.id, coalesce(i.state, ''), coalesce(i.plan_id, ''),
			bound.*, coalesce(t.id, 0), coalesce(t.instance_id, ''), coalesce(t.binding_id, ''), coalesce(t.kind, ''),
			coalesce(t.plan_id, ''), coalesce(t.state, ''), coalesce(t.description, ''), coalesce(t.last_error, ''),
			coalesce(t.attempt, 0), coalesce(t.created_at, 'epoch'), t.finished_at
		FROM unnest($1::text[]) WITH ORDINALITY AS asked (id, place)
		LEFT JOIN instance i ON i.id = asked.id
		CROSS JOIN LATERAL (SELECT count(*), coalesce(max(created_at), 'epoch'), count(*) FILTER (WHERE state = 'ready')
			FROM binding WHERE instance_id = asked.id) AS bound
		LEFT JOIN LATERAL (SELECT * FROM task WHERE instance_id = asked.id AND binding_id = ''
			ORDER BY id DESC LIMIT 1) AS t ON i.id IS NULL OR t.created_at >= i.created_at
		ORDER BY asked.place`, ids)
}

func scanActivity(row pgx.CollectableRow) (a Activity, err error) {
	t := &a.Latest
	err = row.Scan(&a.InstanceID, &a.State, &a.PlanID, &a.Bindings, &a.Bound, &a.Ready, &t.ID, &t.InstanceID, &t.BindingID,
		&t.Kind, &t.PlanID, &t.State, &t.Description, &t.LastError, &t.Attempt, &t.CreatedAt, &t.FinishedAt)
	return a, err
}

// TaskSummary is what the dashboard shows of a task.
type TaskSummary struct {
	ID          int64
	InstanceID  string
	BindingID   string // "" for the instance's own operations
	Kind        string
	PlanID      string
	State       string
	Description string // for users
	LastError   string // for operators
	Attempt     int    // of the present step, counted from 0
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil while it is in progress
}

const summaryColumns = `id, instance_id, binding_id, kind, plan_id, state, description, last_error, attempt, created_at,
	finished_at`

var scanSummary = pgx.RowToStructByPos[TaskSummary]

// RecentTasks lists the latest operations on an instance and its bindings, the newest first, since a time: ids of
// instances can be reused, and tasks from before its creation belong to an earlier instance.
func (s Reports) RecentTasks(ctx context.Context, instanceID string, since time.Time,
	limit int) ([]TaskSummary, error) {
	// MATERIALIZED keeps PostgreSQL from walking the whole table backwards to find the few tasks of a quiet instance.
	return allRows(ctx, s.pool, scanSummary, `WITH own AS MATERIALIZED (SELECT id FROM task WHERE instance_id = $1)
		SELECT `+summaryColumns+` FROM task WHERE id IN (SELECT id FROM own ORDER BY id DESC LIMIT $3) AND created_at >= $2
		ORDER BY id DESC`, instanceID, since, limit)
}

// Bindings lists the bindings of an instance in the order of their creation.
func (s Reports) Bindings(ctx context.Context, instanceID string) ([]ListedBinding, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[ListedBinding], "SELECT "+listedBinding+` FROM binding b
		JOIN instance i ON i.id = b.instance_id WHERE i.id = $1 ORDER BY b.created_at, b.id`, instanceID)
}

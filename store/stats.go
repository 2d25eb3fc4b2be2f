package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// TaskStats are the figures of the tasks that have not ended, of all replicas together.
type TaskStats struct {
	InProgress int64         // leased by a worker
	Waiting    int64         // not leased
	Oldest     time.Duration // age of the oldest, 0 without one
}

// TaskStats counts the tasks that have not ended.
func (s *Store) TaskStats(ctx context.Context) (TaskStats, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[TaskStats], "SELECT "+taskStats)
}

// taskStats are the columns of TaskStats, and where they come from.
const taskStats = `count(*) FILTER (WHERE lease_until > clock_timestamp()),
	count(*) FILTER (WHERE lease_until IS NULL OR lease_until <= clock_timestamp()),
	coalesce(now() - min(created_at), '0'::interval) FROM task WHERE state = 'in progress'`

// KindStats are the figures of the tasks of one kind that have not ended.
type KindStats struct {
	Kind string
	TaskStats
}

// TaskStatsByKind counts the tasks that have not ended. Kinds without one are absent.
func (s *Store) TaskStatsByKind(ctx context.Context) ([]KindStats, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[KindStats], "SELECT kind, "+taskStats+" GROUP BY kind")
}

// Counts are how many instances and bindings there are.
type Counts struct {
	Instances []InstanceCount
	Bindings  int64
}

// BindingCount says how many bindings the instances of a plan on a shared server have; Server is empty for dedicated
// ones.
type BindingCount struct {
	PlanID string
	Server string
	Count  int64
}

// BindingCounts counts bindings by plan and server. Its cost grows with their number.
func (s *Store) BindingCounts(ctx context.Context) ([]BindingCount, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[BindingCount], `SELECT i.plan_id, i.server, sum(b.bindings)::bigint
		FROM (SELECT instance_id, count(*) AS bindings FROM binding GROUP BY instance_id) b
		JOIN instance i ON i.id = b.instance_id GROUP BY i.plan_id, i.server ORDER BY i.plan_id, i.server`)
}

// InstanceCount says how many instances of a plan a shared server holds; Server is empty for dedicated ones.
type InstanceCount struct {
	PlanID string
	Server string
	Count  int64
}

// Counts counts all instances and bindings. Its cost grows with their number.
func (s *Store) Counts(ctx context.Context) (counts Counts, err error) {
	counts.Instances, err = allRows(ctx, s.pool, pgx.RowToStructByPos[InstanceCount],
		"SELECT plan_id, server, count(*) FROM instance GROUP BY plan_id, server ORDER BY plan_id, server")
	if err != nil {
		return counts, err
	}
	counts.Bindings, err = oneRow(ctx, s.pool, pgx.RowTo[int64], "SELECT count(*) FROM binding")
	return counts, err
}

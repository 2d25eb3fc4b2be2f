package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Stats are the figures of the whole broker, all replicas together.
type Stats struct {
	Instances       []InstanceCount
	Bindings        int64
	TasksInProgress int64         // leased by a worker
	TasksWaiting    int64         // not leased
	OldestTask      time.Duration // age of the oldest task in progress, 0 without one
}

// InstanceCount says how many instances of a plan a shared server holds; Server is empty for dedicated ones.
type InstanceCount struct {
	PlanID string
	Server string
	Count  int64
}

// Stats counts what there is. Its cost grows with the number of rows.
func (s *Store) Stats(ctx context.Context) (Stats, error) {
	var stats Stats
	counts, err := allRows(ctx, s.pool, pgx.RowToStructByPos[InstanceCount],
		"SELECT plan_id, server, count(*) FROM instance GROUP BY plan_id, server ORDER BY plan_id, server")
	if err != nil {
		return stats, err
	}
	stats, err = oneRow(ctx, s.pool, scanStats, `SELECT (SELECT count(*) FROM binding),
		count(*) FILTER (WHERE lease_until > clock_timestamp()),
		count(*) FILTER (WHERE lease_until IS NULL OR lease_until <= clock_timestamp()),
		coalesce(now() - min(created_at), '0'::interval) FROM task WHERE state = 'in progress'`)
	stats.Instances = counts
	return stats, err
}

func scanStats(row pgx.CollectableRow) (stats Stats, err error) {
	err = row.Scan(&stats.Bindings, &stats.TasksInProgress, &stats.TasksWaiting, &stats.OldestTask)
	return stats, err
}

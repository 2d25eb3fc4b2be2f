package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// QuotaCount says how many instances of a plan are at a level of their quota (see UsageChange).
type QuotaCount struct {
	PlanID string
	Level  int
	Count  int64
}

// FullInstance is an instance whose data take much of its quota.
type FullInstance struct {
	InstanceID string
	PlanID     string
	Bytes      int64
}

// QuotaStats are the figures of the ready instances that are at a level of their quota other than 0.
type QuotaStats struct {
	Counts  []QuotaCount
	Fullest []FullInstance // those of the highest level first
}

// QuotaStats counts, and lists up to so many of the fullest. It goes by indexes that hold these instances only.
func (s *Store) QuotaStats(ctx context.Context, fullest int) (stats QuotaStats, err error) {
	const full = " FROM storage_usage u JOIN instance i USING (database_name) WHERE u.level > 0 AND i.state = 'ready' "
	stats.Counts, err = allRows(ctx, s.pool, pgx.RowToStructByPos[QuotaCount],
		"SELECT i.plan_id, u.level, count(*)"+full+"GROUP BY 1, 2 ORDER BY 1, 2")
	if err != nil {
		return stats, err
	}
	stats.Fullest, err = allRows(ctx, s.pool, pgx.RowToStructByPos[FullInstance],
		"SELECT i.id, i.plan_id, u.bytes"+full+"ORDER BY u.level DESC, u.bytes DESC, i.id LIMIT $1", fullest)
	return stats, err
}

// DueCount counts the accounts that DueAccounts lists.
func (s *Store) DueCount(ctx context.Context) (int64, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int64], "SELECT count(*)"+fromDue)
}

// Measurements tells when a shared server, or the dedicated servers together (""), were last measured: see
// RecordMeasurement.
func (s *Store) Measurements(ctx context.Context) (map[string]time.Time, error) {
	return s.times(ctx, "SELECT server, measured_at FROM storage_measurement")
}

// Unmeasured tells when those dedicated servers, by their ids, were last measured whose instance is ready and for which
// that is longer ago than age, or when it began to be made if they never were: up to so many, the longest ago first.
func (s *Store) Unmeasured(ctx context.Context, age time.Duration, limit int) (map[string]time.Time, error) {
	return s.times(ctx, `SELECT i.dedicated_id, coalesce(u.measured_at, i.created_at) AS at
		FROM resource r JOIN instance i ON i.id = r.instance_id AND i.dedicated_id = r.name AND i.state = 'ready'
		LEFT JOIN storage_usage u USING (database_name)
		WHERE r.kind = $1 AND r.server = '' AND coalesce(u.measured_at, i.created_at) < now() - $2::interval
		ORDER BY at LIMIT $3`, DedicatedResource, age, limit)
}

// times runs a query that yields servers, each with a time.
func (s *Store) times(ctx context.Context, query string, args ...any) (map[string]time.Time, error) {
	type row struct {
		Server string
		At     time.Time
	}
	all, err := allRows(ctx, s.pool, pgx.RowToStructByPos[row], query, args...)
	at := make(map[string]time.Time, len(all))
	for _, r := range all {
		at[r.Server] = r.At
	}
	return at, err
}

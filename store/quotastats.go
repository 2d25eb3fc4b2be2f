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

// QuotaStats are the figures of the instances that are at a level of their quota other than 0.
type QuotaStats struct {
	Counts  []QuotaCount
	Fullest []FullInstance // those of the highest level first
}

// QuotaStats counts, and lists up to so many of the fullest. It goes by indexes that hold these instances only.
func (s *Store) QuotaStats(ctx context.Context, fullest int) (stats QuotaStats, err error) {
	const full = " FROM storage_usage u JOIN instance i USING (database_name) WHERE u.level > 0 "
	stats.Counts, err = allRows(ctx, s.pool, pgx.RowToStructByPos[QuotaCount],
		"SELECT i.plan_id, u.level, count(*)"+full+"GROUP BY 1, 2 ORDER BY 1, 2")
	if err != nil {
		return stats, err
	}
	stats.Fullest, err = allRows(ctx, s.pool, pgx.RowToStructByPos[FullInstance],
		"SELECT i.id, i.plan_id, u.bytes"+full+"ORDER BY u.level DESC, u.bytes DESC, i.id LIMIT $1", fullest)
	return stats, err
}

// DueCount counts the accounts that may have other privileges than they should.
func (s *Store) DueCount(ctx context.Context) (int64, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int64], `SELECT
		(SELECT count(*) FROM binding WHERE grants_due IS NOT FALSE) +
		(SELECT count(*) FROM retired_account WHERE grants_due)`)
}

// Measurements tells when all databases of a shared server, or all dedicated servers (""), were last measured.
func (s *Store) Measurements(ctx context.Context) (map[string]time.Time, error) {
	type row struct {
		Server string
		At     time.Time
	}
	all, err := allRows(ctx, s.pool, pgx.RowToStructByPos[row], "SELECT server, measured_at FROM storage_measurement")
	at := make(map[string]time.Time, len(all))
	for _, r := range all {
		at[r.Server] = r.At
	}
	return at, err
}

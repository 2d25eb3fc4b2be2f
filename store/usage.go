package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Usages records the storage of instances, now and earlier.
type Usages struct{ *database }

// Usage is the size of an instance's data when it was last measured.
type Usage struct {
	Bytes      int64      `json:"storage_bytes"`
	MeasuredAt time.Time  `json:"storage_measured_at"`
	OverSince  *time.Time `json:"over_quota_since,omitempty"` // when accounts lost the write privileges, or nil
}

// Get reads the usage of an instance. Before the first measurement it returns ErrNotFound.
func (s Usages) Get(ctx context.Context, instanceID string) (Usage, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[Usage], `
		SELECT u.bytes, greatest(u.measured_at, m.measured_at), i.over_since
		FROM instance i JOIN storage_usage u USING (database_name)
		LEFT JOIN storage_measurement m ON m.server = i.server AND i.location_kind = 'shared'
		WHERE i.id = $1`, instanceID)
}

// UsageSample is the size of an instance's data from a time on, until the next sample.
type UsageSample struct {
	At    time.Time
	Bytes int64
}

// History lists the samples of an instance since a time, in the order of time, and before them the sample that
// applied at that time. There are none before the first measurement. Small changes are not sampled: Usage has the
// latest size.
func (s Usages) History(ctx context.Context, instanceID string, since time.Time) ([]UsageSample, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[UsageSample], `
		SELECT s.at, s.bytes FROM instance i JOIN storage_sample s USING (database_name)
		WHERE i.id = $1 AND s.at >= coalesce(
			(SELECT max(b.at) FROM storage_sample b WHERE b.database_name = i.database_name AND b.at <= $2), $2)
		ORDER BY s.at`, instanceID, since)
}

// Measured is an instance whose data is measured, with its last recorded measurement.
type Measured struct {
	InstanceID string
	Database   string
	PlanID     string
	OverSince  *time.Time
	Dedicated  bool // on a server of its own
	// Before the first measurement, the other fields are zero or nil.
	Bytes        *int64
	Level        int           // see UsageChange
	SampledBytes int64         // of the latest sample
	SampledAge   time.Duration // of the latest sample
}

const selectMeasured = `SELECT i.id, i.database_name, i.plan_id, i.over_since, i.location_kind = 'dedicated', u.bytes,
	coalesce(u.level, 0), coalesce(u.sampled_bytes, 0), greatest(now() - u.sampled_at, '0'::interval)
	FROM instance i LEFT JOIN storage_usage u USING (database_name)`

// OnServer reads the ready instances that have one of these databases on a shared server.
func (s Usages) OnServer(ctx context.Context, server string, databases []string) ([]Measured, error) {
	return allRows(ctx, s.pool, scanMeasured, selectMeasured+`
		WHERE i.database_name = ANY ($1) AND i.server = $2 AND i.state = 'ready' ORDER BY i.database_name`,
		databases, server)
}

var scanMeasured = pgx.RowToStructByPos[Measured]

// EachDedicated calls fn with pages of the ready instances that have a dedicated server.
func (s Usages) EachDedicated(ctx context.Context, fn func([]Measured) error) error {
	return s.eachNames(ctx, DedicatedResource, DedicatedServers, func(names []string) error {
		page, err := allRows(ctx, s.pool, scanMeasured, selectMeasured+` JOIN resource r ON r.instance_id = i.id
			WHERE r.kind = $1 AND r.server = '' AND r.name = ANY ($2) AND i.dedicated_id = r.name AND i.state = 'ready'`,
			DedicatedResource, names)
		if err != nil {
			return err
		}
		return fn(page)
	})
}

// OverQuota reads the instances on a shared server, or on all dedicated servers (""), whose OverSince is set.
func (s Usages) OverQuota(ctx context.Context, server string) ([]Measured, error) {
	return allRows(ctx, s.pool, scanMeasured, selectMeasured+" WHERE i.over_since IS NOT NULL AND i.server = $1", server)
}

// UsageChange is what Usage.Record records of a measurement.
type UsageChange struct {
	Database string
	Bytes    int64
	Level    int  // the percentage of the quota that was reached: 80, 90, 100, or 0
	Sample   bool // add to the history
}

// Record records measurements with the present time.
func (s Usages) Record(ctx context.Context, changes []UsageChange) error {
	names, bytes := make([]string, len(changes)), make([]int64, len(changes))
	levels, samples := make([]int16, len(changes)), make([]bool, len(changes))
	for n, c := range changes {
		names[n], bytes[n], levels[n], samples[n] = c.Database, c.Bytes, int16(c.Level), c.Sample
	}
	return s.exec(ctx, `
		WITH change AS (SELECT * FROM unnest($1::text[], $2::bigint[], $3::smallint[], $4::boolean[])
			AS change (name, bytes, level, sample)),
		sampled AS (INSERT INTO storage_sample SELECT name, now(), bytes FROM change WHERE sample ON CONFLICT DO NOTHING)
		INSERT INTO storage_usage (database_name, bytes, measured_at, level, sampled_bytes, sampled_at)
		SELECT name, bytes, now(), level, CASE WHEN sample THEN bytes END, CASE WHEN sample THEN now() END
		FROM change ORDER BY name
		ON CONFLICT (database_name) DO UPDATE SET bytes = excluded.bytes, measured_at = excluded.measured_at,
			level = excluded.level, sampled_bytes = coalesce(excluded.sampled_bytes, storage_usage.sampled_bytes),
			sampled_at = coalesce(excluded.sampled_at, storage_usage.sampled_at)`, names, bytes, levels, samples)
}

// RecordMeasurement records that all databases of a shared server, or the dedicated servers (""), were measured now. A
// dedicated server may have been left out: the Usage of its instance has its own time.
func (s Usages) RecordMeasurement(ctx context.Context, server string) error {
	return s.exec(ctx, `INSERT INTO storage_measurement VALUES ($1, now())
		ON CONFLICT (server) DO UPDATE SET measured_at = excluded.measured_at`, server)
}

// Forget deletes samples that are older than keep, and the usage of deleted instances, unless their data is
// retained. Like Tasks.DeleteFinished, it pauses for half of the time.
func (s Usages) Forget(ctx context.Context, keep time.Duration) error {
	if _, err := s.deleteOlder(ctx, `DELETE FROM storage_sample WHERE (database_name, at) IN (
		SELECT database_name, at FROM storage_sample WHERE at < now() - $1::interval ORDER BY at LIMIT $2)`,
		keep); err != nil {
		return err
	}
	return eachPage(func(names []string) error {
		since := time.Now()
		if err := s.exec(ctx, `DELETE FROM storage_usage u WHERE database_name = ANY ($1)
			AND NOT EXISTS (SELECT FROM instance i WHERE i.database_name = u.database_name)
			AND NOT EXISTS (SELECT FROM retained r WHERE r.database_name = u.database_name)`, names); err != nil {
			return err
		}
		return rest(ctx, since)
	}, func(name string) string { return name }, func(last string) ([]string, error) {
		return allRows(ctx, s.pool, pgx.RowTo[string], `SELECT database_name FROM storage_usage
			WHERE database_name > $1 ORDER BY database_name LIMIT $2`, last, batchRows)
	})
}

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
	Stalled    time.Duration // for how long one of them has made no progress at most, 0 without one
}

// Stats counts the tasks that have not ended.
func (s Tasks) Stats(ctx context.Context) (TaskStats, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[TaskStats], "SELECT "+taskStats)
}

// taskStats are the columns of TaskStats, and where they come from.
const taskStats = `count(*) FILTER (WHERE lease_until > clock_timestamp()),
	count(*) FILTER (WHERE lease_until IS NULL OR lease_until <= clock_timestamp()),
	greatest(now() - min(created_at), '0'::interval),
	greatest(now() - min(coalesce(progressed_at, created_at)), '0'::interval) FROM task WHERE state = 'in progress'`

// KindStats are the figures of the tasks of one kind that have not ended.
type KindStats struct {
	Kind string
	TaskStats
}

// StatsByKind counts the tasks that have not ended. Kinds without one are absent.
func (s Tasks) StatsByKind(ctx context.Context) ([]KindStats, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[KindStats], "SELECT kind, "+taskStats+" GROUP BY kind")
}

// Counts are how many instances and bindings there are.
type Counts struct {
	Instances []Count `db:"-"`
	Bindings  int64
	Frozen    int64 // instances whose accounts may not write: see Instance.FrozenSince
	// ExpiryOverdue is by how many seconds the most overdue binding has outlived its time; 0 if none has.
	ExpiryOverdue   float64
	Retained        int64 // deleted instances that have left data that can come back
	RetainedBytes   int64
	RetainedOverdue float64 // for how many seconds the first of them have been due to be dropped
}

// Count says how many there are of a plan on a shared server; Server is empty for dedicated ones.
type Count struct {
	PlanID string
	Server string
	Count  int64
}

// BindingCounts counts bindings by plan and server. Its cost grows with their number.
func (s Reports) BindingCounts(ctx context.Context) ([]Count, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[Count], `SELECT i.plan_id, i.server, sum(b.bindings)::bigint
		FROM (SELECT instance_id, count(*) AS bindings FROM binding GROUP BY instance_id) b
		JOIN instance i ON i.id = b.instance_id GROUP BY i.plan_id, i.server ORDER BY i.plan_id, i.server`)
}

// Counts counts all instances and bindings. Its cost grows with their number.
func (s Reports) Counts(ctx context.Context) (counts Counts, err error) {
	counts, err = oneRow(ctx, s.pool, pgx.RowToStructByPos[Counts], `SELECT (SELECT count(*) FROM binding),
			(SELECT count(*) FROM instance WHERE frozen_since IS NOT NULL), (`+overdueExpiry+`),
			count(*), coalesce(sum(bytes), 0)::bigint, coalesce(extract(epoch FROM greatest(now() - min(until)
				FILTER (WHERE adopted_by IS NULL), '0'::interval)), 0)::float8
		FROM retained`)
	if err != nil {
		return counts, err
	}
	counts.Instances, err = allRows(ctx, s.pool, pgx.RowToStructByPos[Count],
		"SELECT plan_id, server, count(*) FROM instance GROUP BY plan_id, server ORDER BY plan_id, server")
	return counts, err
}

// QuotaCount says how many instances of a plan are at a level of their quota (see UsageChange).
type QuotaCount struct {
	PlanID string
	Level  int
	Count  int64
}

// FullInstance is an instance whose data takes much of its quota.
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

// Stats counts these instances, and lists up to that many of the fullest. It uses indexes that contain only them.
func (s Usages) Stats(ctx context.Context, fullest int) (stats QuotaStats, err error) {
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
func (s Tasks) DueCount(ctx context.Context) (int64, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[int64], "SELECT count(*)"+fromDue)
}

// Measurements returns when each shared server, and the dedicated servers together (""), were last measured: see
// RecordMeasurement.
func (s Usages) Measurements(ctx context.Context) (map[string]time.Time, error) {
	return named[time.Time](ctx, s.pool, "SELECT server, measured_at FROM storage_measurement")
}

// Unmeasured lists dedicated servers, by id, whose instance is ready and was last measured longer ago than age. The
// time is that of the last measurement or, without one, of the instance's creation. It returns at most limit servers,
// those measured longest ago.
func (s Usages) Unmeasured(ctx context.Context, age time.Duration, limit int) (map[string]time.Time, error) {
	return named[time.Time](ctx, s.pool, `SELECT i.dedicated_id, coalesce(u.measured_at, i.created_at) AS at
		FROM resource r JOIN instance i ON i.id = r.instance_id AND i.dedicated_id = r.name AND i.state = 'ready'
		LEFT JOIN storage_usage u USING (database_name)
		WHERE r.kind = $1 AND r.server = '' AND coalesce(u.measured_at, i.created_at) < now() - $2::interval
		ORDER BY at LIMIT $3`, DedicatedResource, age, limit)
}

// Reports summarises what is recorded, for people and metrics.
type Reports struct{ *database }

// InstanceCounts are numbers of instances, including the one for which they are counted.
type InstanceCounts struct {
	All                   int
	OfOrganization        int
	OfPlan                int // including those that are being changed to the plan, also in the next
	OfPlanAndOrganization int
}

// CountInstances counts the instances of an organization and of a plan. Until the transaction ends, no other counts:
// of several transactions that add an instance each, the last one counts them all.
// https://www.postgresql.org/docs/current/explicit-locking.html#ADVISORY-LOCKS
func (t *Tx) CountInstances(ctx context.Context, organization, planID string) (counts InstanceCounts, err error) {
	t.write("wait for others that count instances", "SELECT pg_advisory_xact_lock($1, 0)", countingLock)
	err = read(ctx, t, statementTime, &counts, pgx.RowToStructByPos[InstanceCounts], `WITH arriving AS (
			SELECT organization_guid FROM instance WHERE plan_id <> $2
				AND id IN (SELECT instance_id FROM task WHERE kind = $3 AND plan_id = $2 AND `+notEnded+`))
		SELECT (SELECT count(*) FROM instance),
			(SELECT count(*) FROM instance WHERE organization_guid = $1),
			(SELECT count(*) FROM instance WHERE plan_id = $2) + (SELECT count(*) FROM arriving),
			(SELECT count(*) FROM instance WHERE organization_guid = $1 AND plan_id = $2)
				+ (SELECT count(*) FROM arriving WHERE organization_guid = $1)`, organization, planID, Update)
	return counts, err
}

// countingLock is the first of two numbers, so that it never equals the lock of an id, which has one.
const countingLock = 1

// OrganizationCount says how many instances of a plan an organization has.
type OrganizationCount struct {
	PlanID           string
	OrganizationGUID string
	OrganizationName string // from the latest request that named it; "" if none did
	Count            int
}

// MostInOrganization returns, for each plan's id and for all plans (""), how many instances the organization has that
// has the most.
func MostInOrganization(counts []OrganizationCount) map[string]int {
	most, ofAll := map[string]int{}, map[string]int{}
	for _, c := range counts {
		ofAll[c.OrganizationGUID] += c.Count
		most[c.PlanID] = max(most[c.PlanID], c.Count)
		most[""] = max(most[""], ofAll[c.OrganizationGUID])
	}
	return most
}

// OrganizationCounts counts the instances of each organization, in the order of plans and organizations. Its cost grows
// with their number.
func (s Reports) OrganizationCounts(ctx context.Context) ([]OrganizationCount, error) {
	return allRows(ctx, s.pool, pgx.RowToStructByPos[OrganizationCount], `SELECT plan_id, organization_guid,
			coalesce((array_agg(context->>'organization_name' ORDER BY created_at DESC)
				FILTER (WHERE context->>'organization_name' <> ''))[1], ''), count(*)
		FROM instance GROUP BY plan_id, organization_guid ORDER BY plan_id, organization_guid`)
}

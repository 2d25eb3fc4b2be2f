package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

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

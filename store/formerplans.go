package store

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// HadPlan tells whether the instance of that id has a plan or had it before, or an operation on it, or on an earlier
// one of that id, was about the plan. Of instances that are deleted, that is known for as long as their tasks are kept.
func (s *Store) HadPlan(ctx context.Context, instanceID, planID string) (bool, error) {
	had, err := oneRow(ctx, s.pool, pgx.RowTo[bool], `SELECT
		EXISTS (SELECT FROM instance WHERE id = $1 AND (plan_id = $2 OR $2 = ANY (former_plans)))
		OR EXISTS (SELECT FROM task WHERE instance_id = $1 AND plan_id = $2)`, instanceID, planID)
	return had, explainOldSchema(err)
}

package store

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
)

// lookAt is how many rows a filter that no index answers looks at for one page: so many take some tens of milliseconds,
// however many there are.
const lookAt = 5_000

// InstanceSummary is what operators are shown of an instance in a list.
type InstanceSummary struct {
	ID               string
	Name             string // that the platform told, "" if it did not
	PlanID           string
	State            string
	Server           string // shared server's name, "" for a dedicated instance
	OrganizationGUID string
	SpaceGUID        string
	CreatedAt        time.Time
}

// InstanceFilter says which instances to list; empty fields let every one through.
type InstanceFilter struct {
	PlanID string
	Server string
	State  string
}

// InstancesAfter lists up to limit instances behind an id ("" for the first ones) in the order of their ids. next is
// where the following page begins, "" at the end. A page is short, or empty, where lookAt instances in a row held no
// more that the filter lets through.
func (s *Store) InstancesAfter(ctx context.Context, after string, f InstanceFilter, limit int) (
	page []InstanceSummary, next string, err error) {
	page, err = allRows(ctx, s.pool, pgx.RowToStructByPos[InstanceSummary], `
		SELECT id, coalesce(context->>'instance_name', ''), plan_id, state, server, organization_guid, space_guid, created_at
		FROM (SELECT * FROM instance WHERE id > $1 ORDER BY id LIMIT $2) AS looked_at
		WHERE ($3 = '' OR plan_id = $3) AND ($4 = '' OR server = $4) AND ($5 = '' OR state = $5)
		ORDER BY id LIMIT $6`, after, lookAt, f.PlanID, f.Server, f.State, limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(page) > limit {
		return page[:limit], page[limit-1].ID, nil
	}
	next, err = oneRow(ctx, s.pool, pgx.RowTo[string], `SELECT id FROM instance WHERE id > $1 ORDER BY id
		OFFSET $2 LIMIT 1`, after, lookAt-1)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return page, next, err
}

// FindInstance returns the id of the instance that has this id, this database or, of its bindings, this account. It
// returns ErrNotFound where there is none.
func (s *Store) FindInstance(ctx context.Context, name string) (id string, err error) {
	return oneRow(ctx, s.pool, pgx.RowTo[string], `SELECT id FROM instance WHERE id = $1
		UNION ALL SELECT id FROM instance WHERE database_name = $1
		UNION ALL SELECT instance_id FROM binding WHERE account = $1 LIMIT 1`, name)
}

// TaskFilter says which tasks to list; empty fields let every one through.
type TaskFilter struct {
	InstanceID string
	State      string
	Kind       string
}

// TasksBefore lists up to limit tasks that are older than one (0 for the newest), the newest first. next is where the
// following page begins, 0 at the end. A page is short, or empty, where lookAt tasks in a row held no more that the
// filter lets through.
func (s *Store) TasksBefore(ctx context.Context, before int64, f TaskFilter, limit int) (
	page []TaskSummary, next int64, err error) {
	if before == 0 {
		before = math.MaxInt64
	}
	from := " FROM task WHERE id < $1 AND ($2 = '' OR instance_id = $2)"
	if f.InstanceID != "" {
		from = " FROM task WHERE id < $1 AND instance_id = $2"
	}
	switch f.State { // of these there are few among many, and indexes of their own
	case InProgress:
		from += " AND state = 'in progress'"
	case Failed:
		from += " AND state = 'failed'"
	}
	page, err = allRows(ctx, s.pool, scanSummary, `SELECT * FROM (SELECT `+summaryColumns+from+` ORDER BY id DESC LIMIT $3)
		AS looked_at WHERE ($4 = '' OR state = $4) AND ($5 = '' OR kind = $5) ORDER BY id DESC LIMIT $6`,
		before, f.InstanceID, lookAt, f.State, f.Kind, limit+1)
	if err != nil {
		return nil, 0, err
	}
	if len(page) > limit {
		return page[:limit], page[limit-1].ID, nil
	}
	next, err = oneRow(ctx, s.pool, pgx.RowTo[int64], "SELECT id"+from+" ORDER BY id DESC OFFSET $3 LIMIT 1",
		before, f.InstanceID, lookAt-1)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return page, next, err
}

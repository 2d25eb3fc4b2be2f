package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// listPage is how many rows a list looks at by one statement: so many take some milliseconds, whatever a filter lets
// through and however many rows there are.
const listPage = 2000

var lastOfPage = fmt.Sprintf(" OFFSET %d LIMIT 1", listPage-1)

// ListedInstance is what operators see of an instance in a list: nothing secret, and nothing of its parameters.
type ListedInstance struct {
	ID               string
	Name             string // that the platform gave with the request; "" if it did not, as with the next two
	OrganizationName string
	SpaceName        string
	OrganizationGUID string
	SpaceGUID        string
	PlanID           string
	State            string
	Server           string // shared server's name, "" for a dedicated instance
	DedicatedID      string // the launcher's id, "" for a shared instance
	Database         string
	Bindings         int64  // whatever their state
	Operation        string // kind of the task in progress on the instance itself, "" without one
	CreatedAt        time.Time
	UpdatedAt        time.Time
}

const listedInstance = `i.id, coalesce(i.context->>'instance_name', ''), coalesce(i.context->>'organization_name', ''),
	coalesce(i.context->>'space_name', ''), i.organization_guid, i.space_guid, i.plan_id, i.state, i.server,
	i.dedicated_id, i.database_name, (SELECT count(*) FROM binding b WHERE b.instance_id = i.id),
	coalesce((SELECT kind FROM task t WHERE t.instance_id = i.id AND t.binding_id = '' AND t.state = 'in progress'), ''),
	i.created_at, i.updated_at`

// InstanceQuery says which instances to list; zero fields let every one through.
type InstanceQuery struct {
	ID           string
	PlanIDs      []string
	State        string
	Server       string // a shared server's name
	Dedicated    bool   // only those with a server of their own
	Organization string // its GUID or the name that the platform gave
	Space        string // likewise
	Since        time.Time
}

// EachInstance calls fn with the instances that match, in the order of their ids, each as it was at some moment since
// the call. It holds a page of them in memory.
func (s *Store) EachInstance(ctx context.Context, q InstanceQuery, fn func(ListedInstance) error) error {
	l := list{table: "instance i", key: "i.id", columns: listedInstance}
	l.only(q.ID != "", "i.id = ?", q.ID)
	l.where(q.PlanIDs != nil, "i.plan_id = ANY (?)", q.PlanIDs)
	l.where(q.State != "", "i.state = ?", q.State)
	l.where(q.Server != "", "i.server = ?", q.Server)
	l.where(q.Dedicated, "i.dedicated_id <> ''")
	l.where(q.Organization != "", "? IN (i.organization_guid, i.context->>'organization_name')", q.Organization)
	l.where(q.Space != "", "? IN (i.space_guid, i.context->>'space_name')", q.Space)
	l.where(!q.Since.IsZero(), "i.created_at >= ?", q.Since)
	return eachListed(ctx, s, l, fn)
}

// ListedBinding is what operators see of a binding in a list: no password, and nothing of its parameters.
type ListedBinding struct {
	InstanceID string
	ID         string
	PlanID     string // the instance's
	State      string
	Role       string
	Account    string // its name on the server
	AppGUID    string // "" for a service key
	Server     string // shared server's name, "" for a dedicated instance
	Operation  string // kind of the task in progress on the binding, "" without one
	CreatedAt  time.Time
}

const listedBinding = `b.instance_id, b.id, i.plan_id, b.state, b.role, b.account, b.app_guid, i.server,
	coalesce((SELECT kind FROM task t WHERE t.instance_id = b.instance_id AND t.binding_id = b.id
		AND t.state = 'in progress'), ''), b.created_at`

// BindingQuery says which bindings to list; zero fields let every one through.
type BindingQuery struct {
	InstanceID string
	ID         string
	PlanIDs    []string
	State      string
	Role       string
	Server     string // a shared server's name
	AppGUID    string
	Since      time.Time
}

// EachBinding is EachInstance for bindings, in the order of their instances' ids and their own.
func (s *Store) EachBinding(ctx context.Context, q BindingQuery, fn func(ListedBinding) error) error {
	l := list{table: "binding b", key: "b.instance_id, b.id", columns: listedBinding,
		join: "JOIN instance i ON i.id = b.instance_id"}
	l.only(q.InstanceID != "", "b.instance_id = ?", q.InstanceID)
	l.only(q.ID != "", "b.id = ?", q.ID)
	l.where(q.PlanIDs != nil, "i.plan_id = ANY (?)", q.PlanIDs)
	l.where(q.State != "", "b.state = ?", q.State)
	l.where(q.Role != "", "b.role = ?", q.Role)
	l.where(q.Server != "", "i.server = ?", q.Server)
	l.where(q.AppGUID != "", "b.app_guid = ?", q.AppGUID)
	l.where(!q.Since.IsZero(), "b.created_at >= ?", q.Since)
	return eachListed(ctx, s, l, fn)
}

// ListedTask is what operators see of a task: nothing of what was asked beside its kind and plan.
type ListedTask struct {
	ID          int64
	InstanceID  string
	BindingID   string // "" for the instance's own operations
	Kind        string
	PlanID      string
	State       string
	Phase       string
	Step        string    // the last finished one of the phase
	Attempt     int       // of the present step, counted from 0; crashes count
	Leased      bool      // a worker is at it
	RunAt       time.Time // when it is tried again, if no worker is at it and it has not ended
	Description string    // for users
	LastError   string    // for operators
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil while it is in progress
}

const listedTask = `t.id, t.instance_id, t.binding_id, t.kind, t.plan_id, t.state, t.phase, t.step, t.attempt,
	coalesce(t.lease_until > clock_timestamp(), false), t.run_at, t.description, t.last_error, t.created_at, t.finished_at`

// TaskQuery says which tasks to list; zero fields let every one through.
type TaskQuery struct {
	ID         int64
	InstanceID string
	BindingID  string
	Kind       string
	PlanIDs    []string
	State      string
	Since      time.Time
}

// EachTask is EachInstance for tasks, the newest first.
func (s *Store) EachTask(ctx context.Context, q TaskQuery, fn func(ListedTask) error) error {
	l := list{table: "task t", key: "t.id", columns: listedTask, descending: true}
	l.only(q.ID != 0, "t.id = ?", q.ID)
	l.only(q.InstanceID != "", "t.instance_id = ?", q.InstanceID)
	l.only(q.BindingID != "", "t.binding_id = ?", q.BindingID)
	l.only(q.State == InProgress && q.InstanceID == "", "t.finished_at IS NULL") // the condition of an index
	l.where(q.State != "", "t.state = ?", q.State)
	l.where(q.Kind != "", "t.kind = ?", q.Kind)
	l.where(q.PlanIDs != nil, "t.plan_id = ANY (?)", q.PlanIDs)
	l.where(!q.Since.IsZero(), "t.created_at >= ?", q.Since)
	return eachListed(ctx, s, l, fn)
}

// list is how a list is read a page at a time, from one key to the next.
type list struct {
	table      string // with its alias
	key        string // columns, in the order of an index
	columns    string
	join       string
	descending bool
	found      []condition // by an index
	matches    []condition // row by row
}

// condition is SQL in which each ? stands for an argument.
type condition struct {
	sql  string
	args []any
}

// only adds a condition, if wanted, that an index answers.
func (l *list) only(wanted bool, sql string, args ...any) {
	if wanted {
		l.found = append(l.found, condition{sql, args})
	}
}

// where adds a condition, if wanted, that every row has to be looked at for.
func (l *list) where(wanted bool, sql string, args ...any) {
	if wanted {
		l.matches = append(l.matches, condition{sql, args})
	}
}

// eachListed calls fn with every row. A page ends at the last of listPage keys, found beforehand, and holds what there is
// up to there when it is read: no row that is there all the time is left out or comes twice.
func eachListed[T any](ctx context.Context, s *Store, l list, fn func(T) error) error {
	keys := strings.Count(l.key, ",") + 1
	beyond, upTo := ">", "<="
	order := " ORDER BY " + l.key
	if l.descending {
		beyond, upTo, order = "<", ">=", order+" DESC"
	}
	first, _, _ := strings.Cut(l.key, ",")
	key := func(operator string, values []any) condition {
		// The first column by itself too, by which PostgreSQL can tell that it is about few rows.
		return condition{first + " " + operator[:1] + "= ? AND (" + l.key + ") " + operator + " (?" +
			strings.Repeat(", ?", keys-1) + ")", append([]any{values[0]}, values...)}
	}
	rest := l.found
	for {
		sql, args := complete("SELECT "+l.key+" FROM "+l.table, rest)
		ends, err := allRows(ctx, s.pool, rowValues, sql+order+lastOfPage, args...)
		if err != nil {
			return explainOldSchema(err)
		}
		part := rest
		if len(ends) > 0 {
			part = append(slices.Clip(rest), key(upTo, ends[0]))
		}
		sql, args = complete("SELECT "+l.columns+" FROM "+l.table+" "+l.join, append(slices.Clip(part), l.matches...))
		page, err := allRows(ctx, s.pool, pgx.RowToStructByPos[T], sql+order, args...)
		if err != nil {
			return explainOldSchema(err)
		}
		for _, row := range page {
			if err := fn(row); err != nil {
				return err
			}
		}
		if len(ends) == 0 {
			return nil
		}
		rest = append(slices.Clip(l.found), key(beyond, ends[0]))
	}
}

func rowValues(row pgx.CollectableRow) ([]any, error) { return row.Values() }

// complete adds the conditions to a query, and numbers their arguments.
func complete(query string, conditions []condition) (sql string, args []any) {
	var b strings.Builder
	b.WriteString(query)
	word := " WHERE "
	for _, c := range conditions {
		b.WriteString(word)
		word = " AND "
		args = append(args, c.args...)
		number := len(args) - len(c.args)
		for _, r := range c.sql {
			if r == '?' {
				number++
				fmt.Fprintf(&b, "$%d", number)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String(), args
}

// InstancesFrom lists the first ids of instances, up to limit, that are not before one, in their order.
func (s *Store) InstancesFrom(ctx context.Context, id string, limit int) ([]string, error) {
	return allRows(ctx, s.pool, pgx.RowTo[string], "SELECT id FROM instance WHERE id >= $1 ORDER BY id LIMIT $2", id, limit)
}

// PlanInUse tells whether an instance has that plan, which may not be in the catalog any more.
func (s *Store) PlanInUse(ctx context.Context, id string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], "SELECT EXISTS (SELECT FROM instance WHERE plan_id = $1)", id)
}

package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// ListedInstance is an instance in an operator's list, without secrets and parameters.
type ListedInstance struct {
	ID               string `json:"id"`
	Name             string `json:"name,omitempty"` // from the platform's request; "" if it sent none, like the next two
	OrganizationName string `json:"organization_name,omitempty"`
	SpaceName        string `json:"space_name,omitempty"`
	OrganizationGUID string `json:"organization_guid,omitempty"`
	SpaceGUID        string `json:"space_guid,omitempty"`
	PlanID           string `json:"plan_id"`
	State            string `json:"state"`

	Location `json:"-"`

	ServerFlavour string    `json:"-"` // of a dedicated server: see Instance
	ServerVersion string    `json:"-"`
	Database      string    `json:"database"`
	Bindings      int64     `json:"binding_count"`       // in any state
	Operation     string    `json:"operation,omitempty"` // of the task in progress on the instance itself, "" without one
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

const listedInstance = `i.id, coalesce(i.context->>'instance_name', ''), coalesce(i.context->>'organization_name', ''),
	coalesce(i.context->>'space_name', ''), i.organization_guid, i.space_guid, i.plan_id, i.state, ` + locationColumns + `,
	i.server_flavour, i.server_version, i.database_name, (SELECT count(*) FROM binding b WHERE b.instance_id = i.id),
	coalesce((SELECT kind FROM task t WHERE t.instance_id = i.id AND t.binding_id = '' AND t.state = 'in progress'), ''),
	i.created_at, i.updated_at`

// InstanceQuery selects instances; zero fields do not filter.
type InstanceQuery struct {
	ID           string
	PlanIDs      []string
	State        string
	Server       string // a shared server's name
	Dedicated    bool   // only instances with a dedicated server
	Organization string // its GUID or the name that the platform gave
	Space        string // likewise
	Since        time.Time
	Most         int // how many at most, 0 for all
}

func (q InstanceQuery) list() list {
	l := list{table: "instance i", key: "i.id", columns: listedInstance, most: q.Most}
	l.only(q.ID != "", "i.id = ?", q.ID)
	l.where(q.PlanIDs != nil, "i.plan_id = ANY (?)", q.PlanIDs)
	l.where(q.State != "", "i.state = ?", q.State)
	l.where(q.Server != "", "i.server = ?", q.Server)
	l.where(q.Dedicated, "i.location_kind = 'dedicated'")
	l.where(q.Organization != "", "? IN (i.organization_guid, i.context->>'organization_name')", q.Organization)
	l.where(q.Space != "", "? IN (i.space_guid, i.context->>'space_name')", q.Space)
	l.where(!q.Since.IsZero(), "i.created_at >= ?", q.Since)
	return l
}

// Each calls fn with the instances that match, ordered by id. Each is as it was at some time since the call. It
// holds one page of them in memory.
func (s Instances) Each(ctx context.Context, q InstanceQuery, fn func(ListedInstance) error) error {
	return eachListed(ctx, s.database, q.list(), fn)
}

// ListedBinding is a binding in an operator's list, without password and parameters.
type ListedBinding struct {
	InstanceID string     `json:"instance_id"`
	ID         string     `json:"id"`
	PlanID     string     `json:"plan_id"` // the instance's
	State      string     `json:"state"`
	Role       string     `json:"role"`
	TLS        string     `json:"tls"`
	Account    string     `json:"account"`             // its name on the server
	AppGUID    string     `json:"app_guid,omitempty"`  // "" for a service key
	Server     string     `json:"server,omitempty"`    // shared server's name, "" for a dedicated instance
	Operation  string     `json:"operation,omitempty"` // kind of the task in progress on the binding, "" without one
	CreatedAt  time.Time  `json:"created_at"`
	SpaceGUID  string     `json:"space_guid,omitempty"` // that uses it, "" if it is not known
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
}

const listedBinding = `b.instance_id, b.id, i.plan_id, b.state, b.role, b.tls, b.account, b.app_guid, i.server,
	coalesce((SELECT kind FROM task t WHERE t.instance_id = b.instance_id AND t.binding_id = b.id
		AND t.state = 'in progress'), ''), b.created_at, b.space_guid, b.expires_at`

// BindingQuery selects bindings; zero fields do not filter.
type BindingQuery struct {
	InstanceID string
	ID         string
	PlanIDs    []string
	State      string
	Role       string
	Server     string // a shared server's name
	AppGUID    string
	SpaceGUID  string // of the instance, or of the app that uses the binding
	Since      time.Time
	Before     time.Time
}

// Each is Instances.Each for bindings, ordered by instance id and then binding id.
func (s Bindings) Each(ctx context.Context, q BindingQuery, fn func(ListedBinding) error) error {
	l := list{table: "binding b", key: "b.instance_id, b.id", columns: listedBinding,
		join: "JOIN instance i ON i.id = b.instance_id"}
	l.only(q.InstanceID != "", "b.instance_id = ?", q.InstanceID)
	l.only(q.ID != "", "b.id = ?", q.ID)
	l.where(q.PlanIDs != nil, "i.plan_id = ANY (?)", q.PlanIDs)
	l.where(q.State != "", "b.state = ?", q.State)
	l.where(q.Role != "", "b.role = ?", q.Role)
	l.where(q.Server != "", "i.server = ?", q.Server)
	l.where(q.AppGUID != "", "b.app_guid = ?", q.AppGUID)
	l.where(q.SpaceGUID != "", "? IN (i.space_guid, b.space_guid)", q.SpaceGUID)
	l.where(!q.Since.IsZero(), "b.created_at >= ?", q.Since)
	l.where(!q.Before.IsZero(), "b.created_at < ?", q.Before)
	return eachListed(ctx, s.database, l, fn)
}

// ListedTask is a task in an operator's list. Of its request, it has only the kind and the plan.
type ListedTask struct {
	ID          int64      `json:"-"`
	InstanceID  string     `json:"instance_id"`
	BindingID   string     `json:"binding_id,omitempty"` // "" for the instance's own operations
	Kind        string     `json:"kind"`
	PlanID      string     `json:"plan_id"`
	State       string     `json:"state"`
	Phase       string     `json:"phase"`
	Step        string     `json:"step,omitempty"`        // the last finished step of the phase
	Attempt     int        `json:"attempts"`              // of the present step, counted from 0, including crashes
	Leased      bool       `json:"worker"`                // a worker runs it
	RunAt       time.Time  `json:"-"`                     // when it is tried again, if it waits
	Description string     `json:"description,omitempty"` // for users
	LastError   string     `json:"last_error,omitempty"`  // for operators
	CreatedAt   time.Time  `json:"created_at"`
	FinishedAt  *time.Time `json:"finished_at,omitempty"` // nil while it is in progress
}

const listedTask = `t.id, t.instance_id, t.binding_id, t.kind, t.plan_id, t.state, t.phase, t.step, t.attempt,
	coalesce(t.lease_until > clock_timestamp(), false), t.run_at, t.description, t.last_error, t.created_at, t.finished_at`

// TaskQuery selects tasks; zero fields do not filter.
type TaskQuery struct {
	ID         int64
	InstanceID string
	BindingID  string
	Kind       string
	PlanIDs    []string
	State      string
	Since      time.Time
	Most       int // how many at most, 0 for all
}

func (q TaskQuery) list() list {
	l := list{table: "task t", key: "t.id", columns: listedTask, descending: true, most: q.Most}
	l.only(q.ID != 0, "t.id = ?", q.ID)
	l.only(q.InstanceID != "", "t.instance_id = ?", q.InstanceID)
	l.only(q.BindingID != "", "t.binding_id = ?", q.BindingID)
	if q.InstanceID == "" { // few tasks are in these states, which have indexes of their own
		l.only(q.State == InProgress, "t.finished_at IS NULL")
		l.only(q.State == Failed, "t.state = 'failed'")
	}
	l.where(q.State != "", "t.state = ?", q.State)
	l.where(q.Kind != "", "t.kind = ?", q.Kind)
	l.where(q.PlanIDs != nil, "t.plan_id = ANY (?)", q.PlanIDs)
	l.where(!q.Since.IsZero(), "t.created_at >= ?", q.Since)
	return l
}

// Each is Instances.Each for tasks, the newest first.
func (s Tasks) Each(ctx context.Context, q TaskQuery, fn func(ListedTask) error) error {
	return eachListed(ctx, s.database, q.list(), fn)
}

// PlanInUse reports whether an instance has that plan, which may be a removed plan.
func (s Instances) PlanInUse(ctx context.Context, id string) (bool, error) {
	return oneRow(ctx, s.pool, pgx.RowTo[bool], "SELECT EXISTS (SELECT FROM instance WHERE plan_id = $1)", id)
}

// pageKeys is how many rows one statement of a list reads. It takes some tens of milliseconds, however many match and
// however many there are.
const pageKeys = 5000

var lastOfPage = fmt.Sprintf(" OFFSET %d LIMIT 1", pageKeys-1)

// list describes a list that is read page by page, in the order of a key.
type list struct {
	table      string // with its alias
	key        string // columns, in the order of an index
	columns    string
	join       string
	descending bool
	most       int         // rows, 0 for all
	found      []condition // by an index
	matches    []condition // row by row
}

// condition is SQL with a ? for each argument.
type condition struct {
	sql  string
	args []any
}

// only adds a condition, if wanted, for which there is an index.
func (l *list) only(wanted bool, sql string, args ...any) {
	if wanted {
		l.found = append(l.found, condition{sql, args})
	}
}

// where adds a condition, if wanted, for which every row must be read.
func (l *list) where(wanted bool, sql string, args ...any) {
	if wanted {
		l.matches = append(l.matches, condition{sql, args})
	}
}

// keyIs compares the key with values. The first column is also compared by itself, so that PostgreSQL estimates that
// few rows match.
func (l *list) keyIs(operator string, values []any) condition {
	first, _, _ := strings.Cut(l.key, ",")
	return condition{first + " " + operator[:1] + "= ? AND (" + l.key + ") " + operator + " (?" +
		strings.Repeat(", ?", len(values)-1) + ")", append([]any{values[0]}, values...)}
}

func eachListed[T any](ctx context.Context, s *database, l list, fn func(T) error) error {
	var after []any
	for read := 0; ; {
		page, end, err := listedPage[T](ctx, s, l, after, l.most-read)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := fn(row); err != nil {
				return err
			}
		}
		if read += len(page); end == nil || read == l.most {
			return nil
		}
		after = end
	}
}

// listedPage reads the matching rows of a page, at most limit, 0 for all. The page begins after a key, nil for the
// first page. It ends at end, the key of the row that is pageKeys further, nil for the last page. A first statement
// reads end, a second one the rows up to there, so that a row that exists all the time is neither left out nor read
// twice.
func listedPage[T any](ctx context.Context, s *database, l list, after []any,
	limit int) (page []T, end []any, err error) {
	beyond, upTo, order := ">", "<=", " ORDER BY "+l.key
	if l.descending {
		beyond, upTo, order = "<", ">=", order+" DESC"
	}
	rest := slices.Clip(l.found)
	if after != nil {
		rest = append(rest, l.keyIs(beyond, after))
	}
	sql, args := complete("SELECT "+l.key+" FROM "+l.table, rest)
	ends, err := allRows(ctx, s.pool, pgx.CollectableRow.Values, sql+order+lastOfPage, args...)
	if err != nil {
		return nil, nil, err
	}
	part := slices.Clip(rest)
	if len(ends) > 0 {
		end = ends[0]
		part = append(part, l.keyIs(upTo, end))
	}
	sql, args = complete("SELECT "+l.columns+" FROM "+l.table+" "+l.join, append(part, l.matches...))
	if limit > 0 {
		order += fmt.Sprintf(" LIMIT %d", limit)
	}
	page, err = allRows(ctx, s.pool, pgx.RowToStructByPos[T], sql+order, args...)
	return page, end, err
}

// complete adds the conditions to a query and numbers the placeholders.
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

package store

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// ListedInstance is an instance in an operator's list, without secrets and parameters.
type ListedInstance struct {
	ID               string
	Name             string // from the platform's request; "" if it sent none, like the next two
	OrganizationName string
	SpaceName        string
	OrganizationGUID string
	SpaceGUID        string
	PlanID           string
	State            string
	Location
	ServerFlavour string // of a dedicated server: see Instance
	ServerVersion string
	Database      string
	Bindings      int64  // in any state
	Operation     string // kind of the task in progress on the instance itself, "" without one
	CreatedAt     time.Time
	UpdatedAt     time.Time
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
	InstanceID string
	ID         string
	PlanID     string // the instance's
	State      string
	Role       string
	TLS        string // "" if it was made before that was recorded
	Account    string // its name on the server
	AppGUID    string // "" for a service key
	Server     string // shared server's name, "" for a dedicated instance
	Operation  string // kind of the task in progress on the binding, "" without one
	CreatedAt  time.Time
	SpaceGUID  string // that uses it, "" if it is not known
	ExpiresAt  *time.Time
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
	ID          int64
	InstanceID  string
	BindingID   string // "" for the instance's own operations
	Kind        string
	PlanID      string
	State       string
	Phase       string
	Step        string    // the last finished step of the phase
	Attempt     int       // of the present step, counted from 0, including crashes
	Leased      bool      // a worker runs it
	RunAt       time.Time // when it is tried again, if no worker is at it and it has not ended
	Description string    // for users
	LastError   string    // for operators
	CreatedAt   time.Time
	FinishedAt  *time.Time // nil while it is in progress
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

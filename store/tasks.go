package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// Tasks records tasks: what platforms poll of them, and what operators do with them.
type Tasks struct{ *database }

// Kinds of tasks that the records' own statements name: the operations of the Open Service Broker API. What a broker
// knows of these kinds and of others is registered with their workflows: see task.Kind.
const (
	Provision   = "provision"
	Update      = "update"
	Deprovision = "deprovision"
	Bind        = "bind"
	Unbind      = "unbind"
	Rotate      = "rotate"  // replaces the password of a binding
	Expire      = "expire"  // ends an expired binding
	BackUp      = "backup"  // writes a backup of an instance
	Restore     = "restore" // restores a backup in place
)

// States of a task, as last_operation words them.
const (
	InProgress = "in progress"
	Succeeded  = "succeeded"
	Failed     = "failed"
)

// Phases of a task in progress.
const (
	Forward = "forward"
	Cleanup = "cleanup" // the work is being undone
)

// ErrLeaseLost is returned by the writes of a worker whose task belongs to another worker now, or has ended.
var ErrLeaseLost = errors.New("store: lease lost")

// Task is one operation on an instance or, if BindingID is not empty, on a binding; or work on neither.
type Task struct {
	ID          int64
	InstanceID  string // "" for work on no instance
	BindingID   string
	Kind        string
	PlanID      string
	State       string
	Phase       string
	Request     json.RawMessage
	Step        string
	Description string // for users
	LastError   string // for operators
	Attempt     int    // of the present step, counted from 0; crashes count
	Epoch       int64
	Leased      bool // a worker holds it, or held it when it died
	CreatedAt   time.Time
	Server      string // the task's server: a shared server's name or a dedicated server's id; "" for none
	// Organization is that of its instance; "" if there is none, or the platform names none.
	Organization string
	// Memory holds what its steps remembered, by name.
	Memory map[string]json.RawMessage
	ReadAt time.Time // by PostgreSQL's clock, as CreatedAt
}

const taskColumns = `id, instance_id, binding_id, kind, plan_id, state, phase, request, step, description, last_error,
	attempt, epoch, lease_owner IS NOT NULL, created_at, server,
	coalesce((SELECT organization_guid FROM instance WHERE instance.id = instance_id), ''), memory, clock_timestamp()`

var scanTask = pgx.RowToStructByPos[Task]

// NewTask is a task to be recorded.
type NewTask struct {
	InstanceID string
	BindingID  string
	Kind       string
	PlanID     string
	Request    json.RawMessage
	// Description is what users read until a step says more.
	Description string
	// Actor asked for it; the zero value means the one of Store.ActAs.
	Actor Actor
	// Adds says that the task is allowed during a Hold: see task.Kind.
	Adds bool
	// Owner gets the lease at once, for LeaseTTL. If it is empty, or another task of the instance is still leased, the
	// task waits for a worker.
	Owner    string
	LeaseTTL time.Duration
}

// conflicting finds a lease that is still live on a task that must not run beside task c: a task of a whole instance
// runs alone, a task of a binding runs beside those of other bindings, and a task of no instance beside all but its
// kind. A backup, which only reads, runs beside those of bindings.
const conflicting = `SELECT FROM task o WHERE o.instance_id = c.instance_id AND o.id <> c.id
	AND o.lease_until > clock_timestamp() AND (c.binding_id = '' OR o.binding_id IN ('', c.binding_id))
	AND (c.instance_id <> '' OR o.kind = c.kind)
	AND NOT (c.kind = '` + BackUp + `' AND o.binding_id <> '' OR o.kind = '` + BackUp + `' AND c.binding_id <> '')`

// InsertTask records a task. The result is complete once the transaction has committed. A second task in progress for
// the same instance or binding is refused by the database. Where Begin has found a Hold, the transaction fails with
// ErrHeld unless the task only adds.
func (t *Tx) InsertTask(n NewTask) *Task {
	task := &Task{}
	if t.hold && !n.Adds {
		t.failed = ErrHeld
		return task
	}
	actor, err := cmp.Or(n.Actor, t.actor).json()
	if err != nil {
		t.Fail(err)
		return task
	}
	expectRow(t, task, scanTask, `WITH begun AS (
			INSERT INTO task (instance_id, binding_id, kind, plan_id, request, description, epoch, lease_owner, lease_until,
				actor, server)
			SELECT c.instance_id, c.binding_id, c.kind, $4, $5, $8, $10::bigint + 1, l.owner, clock_timestamp() + l.ttl,
				$9, coalesce((SELECT server || dedicated_id FROM instance WHERE id = $1), '')
			FROM (SELECT $1::text AS instance_id, $2::text AS binding_id, $3::text AS kind, 0 AS id) c
			LEFT JOIN (SELECT $6::text AS owner, $7::interval AS ttl) l
				ON l.owner <> '' AND NOT EXISTS (`+conflicting+`)
			RETURNING *),
		audited AS (`+auditBegun+`)
		SELECT `+taskColumns+` FROM begun`,
		n.InstanceID, n.BindingID, n.Kind, n.PlanID, orEmpty(n.Request), n.Owner, n.LeaseTTL, n.Description, actor,
		t.failover.firstEpoch())
	t.begins = append(t.begins, task)
	return task
}

const activeTasks = "SELECT " + taskColumns + " FROM task WHERE instance_id = $1 AND state = 'in progress' ORDER BY id"

// notEnded is the condition for a task in progress in statements that find it by its id. It differs from the conditions
// of the partial indexes: otherwise PostgreSQL may read such an index as a whole, with an entry for every task that
// ended since the last vacuum, instead of looking up the id.
const notEnded = "state NOT IN ('succeeded', 'failed')"

// ActiveTasks lists the tasks in progress of an instance and its bindings.
func (t *Tx) ActiveTasks(ctx context.Context, instanceID string) (all []Task, err error) {
	expectRows(t, &all, scanTask, activeTasks, instanceID)
	err = t.flush(ctx, statementTime)
	return all, err
}

// Cancelled is the LastError of a task that CancelTask ended, and the outcome that metrics count for it.
const Cancelled = "cancelled"

// CancelTask ends a task in progress as failed. Its worker's later writes fail, but the lease lasts until the worker
// releases it or it expires, and keeps the next task of the instance waiting.
func (t *Tx) CancelTask(id int64, description string) {
	t.write("cancel a task", `WITH ended AS (
			UPDATE task SET state = 'failed', description = $2, last_error = $3, epoch = epoch + 1, finished_at = now()
			WHERE id = $1 AND `+notEnded+` RETURNING *) `+auditEnded, id, description, Cancelled)
}

// Get reads one task, or returns ErrNotFound.
func (s Tasks) Get(ctx context.Context, id int64) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, "SELECT "+taskColumns+" FROM task WHERE id = $1", id)
}

// TaskStatus is what platforms poll of a task.
type TaskStatus struct {
	Kind        string
	State       string
	Description string // for users
}

// Status reads the status of a task of the instance (bindingID "") or of the binding, or returns ErrNotFound.
func (s Tasks) Status(ctx context.Context, id int64, instanceID, bindingID string) (TaskStatus, error) {
	return oneRow(ctx, s.pool, pgx.RowToStructByPos[TaskStatus], `SELECT kind, state, description FROM task
		WHERE id = $1 AND instance_id = $2 AND binding_id = $3`, id, instanceID, bindingID)
}

// Latest reads the newest task of an instance (bindingID "") or a binding, of one kind or any (kind ""), or
// returns ErrNotFound.
func (s Tasks) Latest(ctx context.Context, instanceID, bindingID, kind string) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, "SELECT "+taskColumns+` FROM task
		WHERE instance_id = $1 AND binding_id = $2 AND ($3 = '' OR kind = $3) ORDER BY id DESC LIMIT 1`,
		instanceID, bindingID, kind)
}

// DeleteFinished deletes tasks that ended longer ago than age, and returns how many. It pauses for half of the
// time. Tasks that another broker is deleting are left to that broker. A task that servers have recorded must stay, or
// PostgreSQL seems to be older than the servers. So the newest task stays, and one that was recorded while the clock
// was ahead stays until Tasks.Knows no longer needs it.
func (s Tasks) DeleteFinished(ctx context.Context, age time.Duration) (deleted int64, err error) {
	return s.deleteOlder(ctx, `DELETE FROM task WHERE id IN (SELECT id FROM task
		WHERE finished_at < now() - $1::interval AND created_at < now() - $1::interval
			AND id < (SELECT max(id) FROM task) ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED)`, age)
}

// deleteOlder runs a statement that deletes $2 rows that are older than $1, until none is left. It pauses for half of
// the time.
func (d *database) deleteOlder(ctx context.Context, statement string, age time.Duration) (deleted int64, err error) {
	for {
		since := time.Now()
		n, err := d.run(ctx, d.pool, statement, age, batchRows)
		deleted += n
		if err != nil || n < batchRows {
			return deleted, err
		}
		if err := rest(ctx, since); err != nil {
			return deleted, err
		}
	}
}

// Abort forces a task in progress into its cleanup phase. The worker's later writes fail. Its lease lasts until the
// worker has learned of it, and calls ReleaseCancelled, or until it expires: only then does the cleanup begin. If the
// task has ended, or is in its cleanup already, Abort changes nothing and returns ErrNotFound. Only tasks of undoable
// kinds may be aborted.
func (s Tasks) Abort(ctx context.Context, id int64, description, lastError string) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, `UPDATE task SET phase = 'cleanup', step = '', attempt = 0, description = $2,
			last_error = $3, epoch = epoch + 1, run_at = least(run_at, now()), progressed_at = now()
		WHERE id = $1 AND `+notEnded+` AND phase = 'forward'
		RETURNING `+taskColumns, id, description, lastError)
}

// RetryNow makes a waiting task due now, with its number of attempts reset. If the task has ended, or a worker is
// running it, RetryNow changes nothing and returns ErrNotFound.
func (s Tasks) RetryNow(ctx context.Context, id int64) (Task, error) {
	return oneRow(ctx, s.pool, scanTask, `UPDATE task SET run_at = least(run_at, now()), attempt = 0
		WHERE id = $1 AND `+notEnded+` AND (lease_until IS NULL OR lease_until <= clock_timestamp())
		RETURNING `+taskColumns, id)
}

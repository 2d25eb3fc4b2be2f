package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// AuditLog records who did what.
type AuditLog struct{ *database }

// Platforms of actors that are no platform.
const (
	ByOperator = "operator" // a command
	ByBroker   = "broker"   // by itself
)

// Actor says who does something: a user of a platform, as the originating identity of its request says, or somebody who
// runs a command. Fields that are not known are "".
type Actor struct {
	Platform  string `json:"platform,omitempty"`
	UserID    string `json:"user_id,omitempty"`
	Name      string `json:"user_name,omitempty"`
	Email     string `json:"email,omitempty"`
	Host      string `json:"host,omitempty"`       // of a command
	RequestID string `json:"request_id,omitempty"` // of the platform's request
}

func (a Actor) json() (json.RawMessage, error) { return json.Marshal(a) }

// ActAs sets the actor in the audit of operations that do not name one.
func (s *Store) ActAs(a Actor) { s.actor = a }

// AuditEntry says who did what.
type AuditEntry struct {
	ID         int64      `json:"id"`
	At         time.Time  `json:"at"`
	Actor      Actor      `json:"-"`
	Action     string     `json:"action"`
	InstanceID string     `json:"instance_id,omitempty"`
	BindingID  string     `json:"binding_id,omitempty"`
	PlanID     string     `json:"plan_id,omitempty"`
	Object     string     `json:"object,omitempty"`
	TaskID     *int64     `json:"-"`
	Result     string     `json:"result"`
	EndedAt    *time.Time `json:"ended_at,omitempty"`
}

const auditColumns = `a.id, a.at, a.actor, a.action, a.instance_id, a.binding_id, a.plan_id, a.object, a.task_id,
	a.result, a.ended_at`

// AuditQuery selects entries; zero fields do not filter.
type AuditQuery struct {
	InstanceID string
	User       string // an id, a name or an e-mail address
	Action     string
	Since      time.Time
}

// Each is Instances.Each for the audit, the newest entry first.
func (s AuditLog) Each(ctx context.Context, q AuditQuery, fn func(AuditEntry) error) error {
	l := list{table: "audit a", key: "a.id", columns: auditColumns, descending: true}
	l.only(q.InstanceID != "", "a.instance_id = ?", q.InstanceID)
	l.where(q.User != "", "? IN (a.actor->>'user_id', a.actor->>'user_name', a.actor->>'email')", q.User)
	l.where(q.Action != "", "a.action = ?", q.Action)
	l.only(!q.Since.IsZero(), "a.at >= ?", q.Since)
	return eachListed(ctx, s.database, l, fn)
}

// Operations on instances and bindings are tasks. The statement that records a task has auditBegun, and each one that
// ends a task has auditEnded, so that the audit says what the tasks say. Of the request, which may have secrets, it
// only has what tells an upgrade or a move from another update, and where the data of a new instance come from.
const (
	// auditBegun inserts entries of the tasks in "begun".
	auditBegun = `INSERT INTO audit (actor, action, instance_id, binding_id, plan_id, task_id, result, object)
		SELECT actor, kind, instance_id, binding_id, coalesce(nullif(request->>'plan_id', ''), plan_id), id, state,
			coalesce('upgrade to ' || nullif(request->>'version', ''),
				CASE request->>'moves' WHEN 'true' THEN 'move' END,
				'restore of ' || nullif(request->>'restore_backup', ''),
				CASE kind WHEN '` + Provision + `' THEN (SELECT coalesce('undelete of ' || (parameters->>'undelete'),
					'clone of ' || (parameters->>'clone_from'), 'restore of ' || (parameters->>'restore_from'))
					FROM instance i WHERE i.id = begun.instance_id) END, '')
		FROM begun WHERE instance_id <> ''`

	// auditEnded completes the entries of the tasks in "ended".
	auditEnded = `UPDATE audit SET ended_at = ended.finished_at,
			result = CASE ended.last_error WHEN '` + Cancelled + `' THEN ended.last_error ELSE ended.state END
		FROM ended WHERE task_id = ended.id`
)

// auditCommand inserts an entry of what is no task. Its arguments are the actor, the action, an instance, a binding and
// what else it is about.
const auditCommand = `INSERT INTO audit (actor, action, instance_id, binding_id, object, result)
	SELECT $1, $2, $3, $4, $5, 'begun'`

// AuditedCommands are the actions in the audit that are no tasks. Only these can be recorded, so that whoever looks for
// one finds its name.
func AuditedCommands() []string {
	return []string{"cancel", "drain", purged, "recover", "repair", "retry", "rotate-admin-password", "rotate-keys",
		"undrain"}
}

// purged is the action of Retentions.Expire.
const purged = "purge"

// doing is json, or an error if the action is not one of AuditedCommands.
func (a Actor) doing(action string) (json.RawMessage, error) {
	if !slices.Contains(AuditedCommands(), action) {
		return nil, fmt.Errorf("the audit knows no action %q", action)
	}
	return a.json()
}

// Record records that the actor of ActAs begins to do something that is no task of an instance.
func (s AuditLog) Record(ctx context.Context, action, instanceID, bindingID, object string) error {
	actor, err := s.actor.doing(action)
	if err == nil {
		err = s.exec(ctx, auditCommand, actor, action, instanceID, bindingID, object)
	}
	return err
}

// Audit is Store.Audit in a transaction.
func (t *Tx) Audit(action, instanceID, bindingID, object string) {
	actor, err := t.actor.doing(action)
	if err != nil {
		t.Fail(err)
		return
	}
	t.write("record it for the audit", auditCommand, actor, action, instanceID, bindingID, object)
}

// Delete deletes entries that are older than age, and returns how many. It pauses for half of the time.
func (s AuditLog) Delete(ctx context.Context, age time.Duration) (deleted int64, err error) {
	return s.deleteOlder(ctx, `DELETE FROM audit WHERE id IN (SELECT id FROM audit
		WHERE at < now() - $1::interval ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED)`, age)
}

package operator

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/spf13/cobra"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func auditCommand() *cobra.Command {
	var q store.AuditQuery
	command := &cobra.Command{
		Use:   "audit",
		Short: "Show who did what, when, to which service instance",
		Long: `List what platforms' users, operators and the broker itself did, the newest first. Every operation on a service
instance or binding is recorded in the transaction that begins it, with who asked for it, and in the transaction that
ends it, with its result. Commands that change something are recorded before they begin. Refused requests are only in
the log. Entries are kept for KEEP_AUDIT_DAYS. They have no passwords and no SQL.

An upgrade and a move are an update, whose object says so: "upgrade to 11.8.9", "move". The object of a provision says
where its data comes from: "clone of", "restore of" or "undelete of" an instance or a backup.

The user comes from X-Broker-API-Originating-Identity; for commands, entries have the user and the host.

With --json, each line is one object: id, at, platform (a platform, operator or broker), user_id, user_name, email,
host, request_id, action, instance_id, binding_id, plan, plan_id, object (see above, or a server), task, result (in
progress, succeeded, failed, cancelled, or begun for a command) and ended_at. Releases only add fields; empty fields are
absent; times are RFC 3339 in UTC.`,
		Example: `  mysql-broker audit --instance 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker audit --user jane@example.com --since 7d
  mysql-broker audit --since 1d --json >> audit.jsonl`,
	}
	l := list[auditDocument]{filters: filtersOf(command, "entries"), output: output{lines: true},
		rows: func(c *console, ctx context.Context) iter.Seq2[auditDocument, error] {
			return rowsOf(ctx, q, c.store.Audit.Each, c.documents.audit)
		}}
	l.instance(&q.InstanceID, "about this instance and its bindings, deleted or not")
	l.text(&q.User, "user", "about what this user did, by id, name or e-mail address")
	l.choice(&q.Action, "action", "of this action", auditedActions()...)
	l.since(&q.Since)
	return l.command(command)
}

// auditedActions are the operations on instances and bindings, and the commands that change something else.
func auditedActions() []string {
	all := store.AuditedCommands()
	for name, kind := range provisioner.TaskKinds() {
		if kind.Schedule.Every == 0 {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// auditDocument is a line of the output of --json.
type auditDocument struct {
	store.AuditEntry
	store.Actor
	Plan string `json:"plan,omitempty"`
	Task string `json:"task,omitempty"`
}

func (ds documents) audit(e store.AuditEntry) auditDocument {
	d := auditDocument{AuditEntry: e, Actor: e.Actor}
	if e.PlanID != "" {
		d.Plan = ds.plan(e.PlanID)
	}
	if e.TaskID != nil {
		d.Task = task.Token(*e.TaskID)
	}
	return d
}

func (d auditDocument) cells() []cell {
	who := d.Platform
	if name := cmp.Or(d.Name, d.Email, d.UserID); name != "" {
		who += " " + name
	}
	return []cell{{"time", rfc3339(d.At)}, {"who", who}, {"action", d.Action}, {"instance", d.InstanceID},
		{"binding", d.BindingID}, {"plan", d.Plan}, {"object", d.Object}, {"task", d.Task}, {"result", d.Result}}
}

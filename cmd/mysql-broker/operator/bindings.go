package operator

import (
	"context"
	"io"
	"iter"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

func bindingsCommand() *cobra.Command {
	var q store.BindingQuery
	command := &cobra.Command{
		Use:   "bindings [INSTANCE [BINDING-ID]]",
		Short: "List service bindings and keys, or show one",
		Long: `List the service bindings that the broker has recorded, of all instances or of one, in the order of their ids,
or show one with its latest tasks. Service keys are bindings without an app. No password is read or printed.

` + cli.JSONHelp + `
A binding has instance_id, id, plan, plan_id, state, role, tls
(required or optional), account (its name on the server), app_guid, space_guid (of the app, if the platform said),
server (a shared one's), operation (the kind of the one in progress, if any), created_at and expires_at (if it ends by
itself); a single one also has latest_tasks.`,
		Example: `  mysql-broker bindings 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker bindings --state ending --since 1d
  mysql-broker bindings --role admin --json`,
	}
	l := list[bindingDocument]{filters: filtersOf(command, "bindings"), arguments: []*string{&q.InstanceID, &q.ID},
		rows: func(c *console, ctx context.Context) iter.Seq2[bindingDocument, error] { return c.bindings(ctx, q) },
		one: func(c *console, ctx context.Context, out io.Writer, asJSON bool) error {
			return c.showBinding(ctx, out, q, asJSON)
		}}
	l.named(&q.InstanceID)
	l.plan(&q.PlanIDs)
	l.server(&q.Server)
	l.choice(&q.State, "state", "in this state", store.Creating, store.Ready, store.Ending)
	l.choice(&q.Role, "role", "of this role", string(plan.ReadOnly), string(plan.ReadWrite), string(plan.Admin))
	l.text(&q.AppGUID, "app", "of this app, by its GUID")
	l.since(&q.Since)
	return l.command(command)
}

func (c *console) bindings(ctx context.Context, q store.BindingQuery) iter.Seq2[bindingDocument, error] {
	return rowsOf(ctx, q, c.store.Bindings.Each, c.documents.binding)
}

// bindingDocument is a binding in the output of --json.
type bindingDocument struct {
	Plan string `json:"plan"`
	store.ListedBinding
}

func (ds documents) binding(b store.ListedBinding) bindingDocument {
	return bindingDocument{ds.plan(b.PlanID), b}
}

func (d bindingDocument) cells() []cell {
	return []cell{{"instance", d.InstanceID}, {"binding", d.ID}, {"plan", d.Plan}, {"state", d.State}, {"role", d.Role},
		{"tls", d.TLS}, {"account", d.Account}, {"server", d.Server}, {"app", d.AppGUID}, {"space", d.SpaceGUID},
		{"age", since(d.CreatedAt)}, {"expires", ifSet(d.ExpiresAt, rfc3339)}, {"operation", d.Operation}}
}

func (c *console) showBinding(ctx context.Context, out io.Writer, q store.BindingQuery, asJSON bool) error {
	d, err := first(c.bindings(ctx, q), "there is no service binding %q of the service instance %q", q.ID, q.InstanceID)
	if err != nil {
		return err
	}
	tasks, err := c.latestTasks(ctx, store.TaskQuery{InstanceID: q.InstanceID, BindingID: q.ID})
	if err != nil {
		return err
	}
	if err := details(out, asJSON, struct {
		bindingDocument
		Tasks []taskDocument `json:"latest_tasks"`
	}{d, tasks}, []cell{{"instance", d.InstanceID}, {"binding", d.ID}, {"plan", d.Plan}, {"state", d.State},
		{"operation", d.Operation}, {"role", d.Role}, {"tls", d.TLS}, {"account", d.Account}, {"app", d.AppGUID},
		{"space", d.SpaceGUID}, {"server", d.Server}, {"created", at(d.CreatedAt)},
		{"expires", ifSet(d.ExpiresAt, rfc3339)}}); err != nil || asJSON {
		return err
	}
	return printLatest(out, tasks)
}

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

func bindingsCommand() *cobra.Command {
	var q store.BindingQuery
	var planName string
	var since moment
	var out output
	state := choice{allowed: []string{store.Creating, store.Ready, store.Ending}}
	role := choice{allowed: []string{string(plan.ReadOnly), string(plan.ReadWrite), string(plan.Admin)}}
	command := &cobra.Command{
		Use:   "bindings [INSTANCE-ID [BINDING-ID]]",
		Short: "List service bindings and keys, or show one",
		Long: `List the service bindings that the broker has recorded, of all instances or of one, in the order of their ids,
or show one with its latest tasks. Service keys are bindings without an app. No password is read or printed.

` + jsonHelp + ` A binding has instance_id, id, plan, plan_id, state, role, tls
(required or optional; absent from old bindings, which require TLS if the server's CA is known), account (its name on
the server), app_guid, space_guid (of the app, if the platform said), server (a shared one's), operation (the kind of
the one in progress, if any), created_at and expires_at (if it ends by itself); a single one also has latest_tasks.`,
		Example: `  mysql-broker bindings 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10
  mysql-broker bindings --state ending --since 1d
  mysql-broker bindings --role admin --json`,
		Args: atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withConsole(cmd, func(ctx context.Context, c *console) (err error) {
				if len(args) > 0 {
					q.InstanceID = args[0]
				}
				if len(args) == 2 {
					q.ID = args[1]
					return c.showBinding(ctx, cmd.OutOrStdout(), q, out.json)
				}
				if q.PlanIDs, err = c.planIDs(ctx, planName); err != nil {
					return err
				}
				if err := c.checkServer(ctx, q.Server); err != nil {
					return err
				}
				q.State, q.Role, q.Since = state.value, role.value, since.Time
				return c.listBindings(ctx, out.listing(cmd, "instance", "binding", "plan", "state", "role", "tls",
					"account", "server", "app", "space", "age", "expires", "operation"), q)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&planName, "plan", "", "only bindings to instances of this plan, by its name or id")
	flags.StringVar(&q.Server, "server", "", "only accounts on this shared server")
	flags.Var(&state, "state", "only bindings in this state")
	flags.Var(&role, "role", "only accounts of this role")
	flags.StringVar(&q.AppGUID, "app", "", "only bindings of this app, by its GUID")
	flags.Var(&since, "since", "only bindings created since then: an age such as 90m or 3d, or a time")
	out.flags(command)
	return describe(command, recordedExit, recordedEnvironment)
}

// bindingDocument is a binding in the output of --json.
type bindingDocument struct {
	InstanceID string    `json:"instance_id"`
	ID         string    `json:"id"`
	Plan       string    `json:"plan"`
	PlanID     string    `json:"plan_id"`
	State      string    `json:"state"`
	Role       string    `json:"role"`
	TLS        string    `json:"tls,omitempty"`
	Account    string    `json:"account"`
	AppGUID    string    `json:"app_guid,omitempty"`
	SpaceGUID  string    `json:"space_guid,omitempty"`
	Server     string    `json:"server,omitempty"`
	Operation  string    `json:"operation,omitempty"`
	CreatedAt  time.Time `json:"created_at"`

	ExpiresAt *time.Time `json:"expires_at,omitempty"`
}

func (d bindingDocument) expires() string {
	if d.ExpiresAt == nil {
		return ""
	}
	return d.ExpiresAt.Format(time.RFC3339)
}

func (c *console) bindingDocument(b store.ListedBinding) bindingDocument {
	d := bindingDocument{InstanceID: b.InstanceID, ID: b.ID, Plan: c.planName(b.PlanID), PlanID: b.PlanID,
		State: b.State, Role: b.Role, TLS: b.TLS, Account: b.Account, AppGUID: b.AppGUID, Server: b.Server,
		SpaceGUID: b.SpaceGUID, Operation: b.Operation, CreatedAt: b.CreatedAt.UTC()}
	if b.ExpiresAt != nil {
		expires := b.ExpiresAt.UTC()
		d.ExpiresAt = &expires
	}
	return d
}

func (c *console) listBindings(ctx context.Context, l *listing, q store.BindingQuery) error {
	return l.end(c.store.EachBinding(ctx, q, func(b store.ListedBinding) error {
		d := c.bindingDocument(b)
		return l.add(d, d.InstanceID, d.ID, d.Plan, d.State, d.Role, d.TLS, d.Account, d.Server, d.AppGUID, d.SpaceGUID,
			since(d.CreatedAt), d.expires(), d.Operation)
	}))
}

func (c *console) showBinding(ctx context.Context, out io.Writer, q store.BindingQuery, asJSON bool) error {
	var found []bindingDocument
	if err := c.store.EachBinding(ctx, q, func(b store.ListedBinding) error {
		found = append(found, c.bindingDocument(b))
		return nil
	}); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("there is no service binding %q of the service instance %q", q.ID, q.InstanceID)
	}
	d := found[0]
	tasks, err := c.latestTasks(ctx, store.TaskQuery{InstanceID: q.InstanceID, BindingID: q.ID})
	if err != nil {
		return err
	}
	if err := details(out, asJSON, struct {
		bindingDocument
		Tasks []taskDocument `json:"latest_tasks"`
	}{d, tasks}, [][2]string{{"instance", d.InstanceID}, {"binding", d.ID}, {"plan", d.Plan}, {"state", d.State},
		{"operation", d.Operation}, {"role", d.Role}, {"tls", d.TLS}, {"account", d.Account}, {"app", d.AppGUID},
		{"space", d.SpaceGUID}, {"server", d.Server}, {"created", at(d.CreatedAt)},
		{"expires", d.expires()}}); err != nil || asJSON {
		return err
	}
	return printLatest(out, tasks)
}

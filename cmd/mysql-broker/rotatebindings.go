package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func rotateBindingsCommand() *cobra.Command {
	var q store.BindingQuery
	var before moment
	var out output
	var apply bool
	command := &cobra.Command{
		Use:   "rotate-bindings (--instance ID | --space GUID | --server NAME)",
		Short: "After a leak: list bindings and their apps, and replace their passwords",
		Long: `List the service bindings and keys of an instance, a space or a shared server, with the apps to restart.
Nothing is changed without --apply.

The platform keeps the credentials that it got at the bind; Cloud Controller never fetches new ones. To avoid downtime,
bind the apps again, restart them, and delete the old bindings: see docs/credentials.md. To see which bindings are left,
use --created-before.

With --apply, the accounts of the listed bindings get new passwords, and their open sessions end: apps stop working at
once, until they are bound again or their platform has fetched the new credentials. Running brokers do that, with
one task for each binding, and the command waits for the tasks. It skips bindings of instances that an operation is
changing; then the exit status is 1, and you can run it again.

` + jsonHelp + ` A row has instance_id, id, plan, app_guid (absent for keys), role,
account, server, created_at and, with --apply, result: changed, or why not.`,
		Example: `  mysql-broker rotate-bindings --space 3f5f5a0e-8d7e-4f6d-9a3c-0d5c7e1b2a94
  mysql-broker rotate-bindings --instance 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10 --apply
  mysql-broker rotate-bindings --server mysql-server-1 --created-before 2026-01-31T12:00:00Z --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConsole(cmd, func(ctx context.Context, c *console) error {
				if err := c.checkServer(ctx, q.Server); err != nil {
					return err
				}
				if err := c.checkInstance(ctx, q.InstanceID); err != nil {
					return err
				}
				q.State, q.Before = store.Ready, before.Time
				columns := []string{"instance", "binding", "plan", "app", "role", "account", "server", "age"}
				if apply {
					columns = append(columns, "result")
				}
				return c.rotateBindings(ctx, out.listing(cmd, columns...), q, apply)
			})
		},
	}
	flags := command.Flags()
	flags.StringVar(&q.InstanceID, "instance", "", "the bindings of this service instance")
	flags.StringVar(&q.SpaceGUID, "space", "", "the bindings of all service instances of this space, and of its apps")
	flags.StringVar(&q.Server, "server", "", "the bindings of all service instances on this shared server")
	flags.Var(&before, "created-before", "only bindings created before then: an age such as 90m or 3d, or a time")
	flags.BoolVar(&apply, "apply", false, "replace the passwords and end the sessions of the listed bindings")
	out.flags(command)
	command.MarkFlagsOneRequired("instance", "space", "server")
	command.MarkFlagsMutuallyExclusive("instance", "space", "server")
	return describe(command, `  0    the bindings are listed or, with --apply, all have new passwords
  1    some have not, an argument is wrong, or PostgreSQL cannot be reached; the output and standard error say which
`+exitConfiguration, recordedEnvironment)
}

// checkInstance returns an error if there is no such instance: nobody may take a typing error for the end of a leak.
// "" stands for all instances.
func (c *console) checkInstance(ctx context.Context, id string) error {
	if id == "" {
		return nil
	}
	_, err := c.store.Instance(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no service instance %q", id)
	}
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	return nil
}

// rotatedDocument is a row of the output of --json.
type rotatedDocument struct {
	InstanceID string    `json:"instance_id"`
	ID         string    `json:"id"`
	Plan       string    `json:"plan"`
	AppGUID    string    `json:"app_guid,omitempty"`
	Role       string    `json:"role"`
	Account    string    `json:"account"`
	Server     string    `json:"server,omitempty"`
	CreatedAt  time.Time `json:"created_at"`
	Result     string    `json:"result,omitempty"`
}

const changedPassword = "changed"

// rotateBindings lists bindings. With apply, it records all tasks before it waits for the first one.
func (c *console) rotateBindings(ctx context.Context, l *listing, q store.BindingQuery, apply bool) error {
	type rotated struct {
		store.ListedBinding
		task *store.Task
		err  error
	}
	var all []rotated
	err := c.store.EachBinding(ctx, q, func(b store.ListedBinding) error {
		r := rotated{ListedBinding: b}
		if apply {
			if r.task, r.err = provisioner.RotateBinding(ctx, c.store, b.InstanceID, b.ID); errors.Is(r.err, store.ErrNotFound) {
				return nil // it was deleted meanwhile
			}
		}
		all = append(all, r)
		if len(all) == l.limit {
			return errEnough
		}
		return nil
	})
	if err = unlessEnough(err); err != nil {
		return err
	}
	left := 0
	for _, r := range all {
		d := rotatedDocument{InstanceID: r.InstanceID, ID: r.ID, Plan: c.planName(r.PlanID), AppGUID: r.AppGUID, Role: r.Role,
			Account: r.Account, Server: r.Server, CreatedAt: r.CreatedAt.UTC()}
		if apply {
			d.Result = c.rotation(ctx, r.task, r.err)
			if d.Result != changedPassword {
				left++
			}
		}
		err := l.add(d, append([]string{d.InstanceID, d.ID, d.Plan, d.AppGUID, d.Role, d.Account, d.Server,
			since(d.CreatedAt)}, given(d.Result)...)...)
		if unlessEnough(err) != nil {
			return err
		}
	}
	err = l.end(nil)
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("not changed: %d; run this again later", left))
	}
	return err
}

// given is a column that only some listings have.
func given(text string) []string {
	if text == "" {
		return nil
	}
	return []string{text}
}

// rotation waits for the end of a task, and returns its result for the output.
func (c *console) rotation(ctx context.Context, t *store.Task, err error) string {
	if err != nil {
		return err.Error()
	}
	ended, err := c.store.WaitEnd(ctx, t.ID)
	switch {
	case err != nil:
		return fmt.Sprintf("%s is in progress: %v", task.Token(t.ID), err)
	case ended.State != store.Succeeded:
		return fmt.Sprintf("%s failed: %s", task.Token(t.ID), ended.Description)
	}
	return changedPassword
}

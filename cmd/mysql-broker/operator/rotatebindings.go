package operator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func rotateBindingsCommand() *cobra.Command {
	q := store.BindingQuery{State: store.Ready}
	var out output
	var apply bool
	command := &cobra.Command{
		Use:   "rotate-bindings (--instance INSTANCE | --space GUID | --server NAME)",
		Short: "After a leak: list bindings and apps, and replace passwords",
		Long: `List the service bindings and keys of an instance, a space or a shared server, with the apps to restart.
Nothing is changed without --apply.

The platform keeps the credentials that it got at the bind; Cloud Controller never fetches new ones. To avoid downtime,
bind the apps again, restart them, and delete the old bindings: see docs/credentials.md. To see which bindings are left,
use --created-before.

With --apply, the accounts of the listed bindings get new passwords, and their open sessions end: apps stop working at
once, until they are bound again or their platform has fetched the new credentials. Running brokers do that, with
one task for each binding, and the command waits for the tasks. It skips bindings of instances that an operation is
changing; then the exit status is 1, and you can run it again.

` + cli.JSONHelp + `
A row has what "mysql-broker bindings" has and, with --apply,
result: changed, with what is left to do, or why not.`,
		Example: `  mysql-broker rotate-bindings --space 3f5f5a0e-8d7e-4f6d-9a3c-0d5c7e1b2a94
  mysql-broker rotate-bindings --instance 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10 --apply
  mysql-broker rotate-bindings --server mysql-server-1 --created-before 2026-01-31T12:00:00Z --apply`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withConfig(cmd, config.ForRotation.Read, func(ctx context.Context, c *console) error {
				if err := c.names.checkServer(ctx, q.Server); err != nil {
					return err
				}
				if q.InstanceID != "" { // nobody may take a typing error for the end of a leak
					id, err := c.names.instance(ctx, q.InstanceID)
					if err != nil {
						return err
					}
					q.InstanceID = id
				}
				return c.rotateBindings(ctx, cmd.OutOrStdout(), out, q, apply)
			})
		},
	}
	flags := command.Flags()
	flags.Var(given(&q.InstanceID), "instance", "the bindings of this service instance")
	flags.Var(given(&q.SpaceGUID), "space", "the bindings of all service instances of this space, and of its apps")
	flags.Var(given(&q.Server), "server", "the bindings of all service instances on this shared server")
	flags.Var(moment(&q.Before), "created-before",
		"only bindings created before then: an age such as 90m or 3d, or a time")
	flags.BoolVar(&apply, "apply", false, "replace the passwords and end the sessions of the listed bindings")
	out.addFlags(command)
	command.MarkFlagsOneRequired("instance", "space", "server")
	command.MarkFlagsMutuallyExclusive("instance", "space", "server")
	return cli.Describe(command, `  0    the bindings are listed or, with --apply, all have new passwords
  1    some have not, an argument is wrong, or PostgreSQL cannot be reached; the output and standard error say which
`+cli.ExitConfiguration, cli.EnvironmentOf(config.ForRotation))
}

// rotatedDocument is a row of the output of --json.
type rotatedDocument struct {
	bindingDocument
	Result string `json:"result,omitempty"`

	task *store.Task
	err  error
}

func (d rotatedDocument) cells() []cell {
	return append(d.bindingDocument.cells(), cell{"result", d.Result})
}

const changedPassword = "changed"

// rotateBindings lists bindings. With apply, it records all tasks before it waits for the first one.
func (c *console) rotateBindings(ctx context.Context, out io.Writer, o output, q store.BindingQuery, apply bool) error {
	columns := []string{"instance", "binding", "plan", "app", "role", "account", "server", "age"}
	if apply {
		columns = append(columns, "result")
	}
	hub, err := c.cfg.CredHub.Open()
	if err != nil {
		return err
	}
	if hub != nil {
		defer hub.Close()
	}
	var all []rotatedDocument
	for b, err := range c.bindings(ctx, q) {
		if err != nil {
			return err
		}
		r := rotatedDocument{bindingDocument: b}
		if apply {
			r.task, r.err = bindings.RotateBinding(ctx, c.store, hub, b.InstanceID, b.ID)
			if errors.Is(r.err, store.ErrNotFound) {
				continue // it was deleted meanwhile
			}
		}
		if all = append(all, r); uint(len(all)) == o.limit {
			break
		}
	}
	left := 0
	err = printList(out, o, func(yield func(rotatedDocument, error) bool) {
		for _, r := range all {
			if apply {
				r.Result = c.rotation(ctx, r.task, r.err)
				if !strings.HasPrefix(r.Result, changedPassword) {
					left++
				}
			}
			if !yield(r, nil) {
				return
			}
		}
	}, columns...)
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("not changed: %d; run this again later", left))
	}
	return err
}

// rotation waits for the end of a task, and returns its result for the output.
func (c *console) rotation(ctx context.Context, t *store.Task, err error) string {
	if err != nil {
		return err.Error()
	}
	ended, err := c.store.Tasks.WaitEnd(ctx, t.ID)
	switch {
	case err != nil:
		return fmt.Sprintf("%s is in progress: %v", task.Token(t.ID), err)
	case ended.State != store.Succeeded:
		return fmt.Sprintf("%s failed: %s", task.Token(t.ID), ended.Description)
	case ended.Description != "":
		return changedPassword + ": " + ended.Description
	}
	return changedPassword
}

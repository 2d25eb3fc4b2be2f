package operator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

func moveCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "move INSTANCE SERVER",
		Short: "Move the data of a service instance to another shared server",
		Long: `Move the data of a service instance to another shared server of the same flavour, while apps use them. A
running broker does that, as a task whose name is printed. Apps cannot write for some seconds at the end, and then read
the data at the old address until their bindings are renewed; see docs/moving.md.`,
		Example: `  mysql-broker move 2f1e0d3c-5b4a-4c3d-8e7f-9a0b1c2d3e4f mysql-server-2`,
		Args:    cli.Exactly(2),
		RunE: begins(withConsole, "%s moves it.",
			func(ctx context.Context, c *console, args []string) (t store.Task, err error) {
				if err := c.names.checkServer(ctx, args[1]); err != nil {
					return t, err
				}
				servers, err := shared.Open(c.cfg.Shared, nil) // no key is needed, because nothing is locked
				if err != nil {
					return t, err
				}
				defer servers.Close()
				id, err := c.names.instance(ctx, args[0])
				if err == nil {
					t, err = instances.MoveTo(ctx, c.store, servers, id, args[1])
				}
				if errors.Is(err, store.ErrServerFull) {
					err = fmt.Errorf("%s is full or drained", args[1])
				}
				return t, err
			}),
	}
	return cli.Describe(command, `  0    a broker moves it
  1    it cannot be moved there, or a server cannot be reached; standard error says which
`+cli.ExitConfiguration, cli.RecordedEnvironment)
}

// evacuate moves all instances of a shared server to others, one after the other, and waits for each move.
func (c *console) evacuate(ctx context.Context, name string, out io.Writer) error {
	servers, err := shared.Open(c.cfg.Shared, nil)
	if err != nil {
		return err
	}
	defer servers.Close()
	targets, err := c.names.undrained(ctx)
	if err != nil {
		return err
	}
	var failed []error
	err = c.store.Instances.Each(ctx, store.InstanceQuery{Server: name}, func(i store.ListedInstance) error {
		sentence, err := c.moveAway(ctx, servers, i.ID, name, targets)
		if err != nil {
			failed = append(failed, fmt.Errorf("instance %s: %w", i.ID, err))
			return ctx.Err()
		}
		if sentence != "" {
			_, err = fmt.Fprintln(out, sentence)
		}
		return err
	})
	return errors.Join(append(failed, err)...)
}

// moveAway is moveToAny for an instance on that server. It returns "" if the instance is not there any more: somebody
// else may have deleted or moved it meanwhile.
func (c *console) moveAway(ctx context.Context, servers *shared.Servers, id, from string,
	targets []string) (string, error) {
	sentence, err := c.moveToAny(ctx, servers, id, targets)
	if err == nil {
		return sentence, nil
	}
	i, reading := c.store.Instances.Get(ctx, id)
	if errors.Is(reading, store.ErrNotFound) || reading == nil && i.Location.Server != from {
		return "", nil
	}
	return "", err
}

// moveToAny moves an instance to the first of the servers that takes it.
func (c *console) moveToAny(ctx context.Context, servers *shared.Servers, id string, targets []string) (string, error) {
	refusal := errors.New("no other shared server gets instances")
	for _, target := range targets {
		t, err := instances.MoveTo(ctx, c.store, servers, id, target)
		if errors.Is(err, store.ErrServerFull) {
			refusal = fmt.Errorf("%s is full", target)
			continue
		}
		if errors.Is(err, instances.ErrCannotMove) {
			refusal = err
			continue
		}
		if err != nil {
			return "", err
		}
		if t, err = c.await(ctx, t.ID); err != nil {
			return "", err
		}
		if t.State != store.Succeeded {
			return "", fmt.Errorf("%s failed: %s", task.Token(t.ID), t.Description)
		}
		return fmt.Sprintf("%s is on %s.", printable(id), target), nil
	}
	return "", refusal
}

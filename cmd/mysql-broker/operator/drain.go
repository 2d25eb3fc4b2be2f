package operator

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
)

func drainCommand() *cobra.Command {
	var undo, evacuate bool
	command := &cobra.Command{
		Use:   "drain SERVER",
		Short: "Place no more service instances on a shared server, or place them again",
		Long: `Drain a shared server: after this command has ended, no broker places a service instance there. Existing
instances stay, and can be bound, unbound, updated and deleted. The server stays drained until --undo, even if brokers
restart.

With --evacuate, it then moves the instances to other shared servers of the same flavour, one after the other, and waits
for each move: see "mysql-broker help move". The old server has to run until their apps have the new addresses, or for
KEEP_MOVED_HOURS. Data of deleted instances stay there until their days are over.

To take a server out of service, drain it, move or delete its instances, and remove it from the configuration when
"mysql-broker servers" shows that it has no more.`,
		Example: `  mysql-broker drain mysql-server-1
  mysql-broker instances --server mysql-server-1
  mysql-broker drain --evacuate mysql-server-1
  mysql-broker drain --undo mysql-server-1`,
		Args: cli.Exactly(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return withConsole(cmd, func(ctx context.Context, c *console) error {
				if err := c.names.checkServer(ctx, args[0]); err != nil {
					return err
				}
				sentence, err := c.drain(ctx, args[0], undo)
				if err != nil {
					return err
				}
				fmt.Fprintln(cmd.OutOrStdout(), sentence)
				if evacuate {
					return c.evacuate(ctx, args[0], cmd.OutOrStdout())
				}
				return nil
			})
		},
	}
	command.Flags().BoolVar(&evacuate, "evacuate", false, "move its instances to other shared servers")
	command.Flags().BoolVar(&undo, "undo", false, "let the server get instances again")
	command.MarkFlagsMutuallyExclusive("undo", "evacuate")
	return cli.Describe(command, `  0    it is as asked for, or was already
  1    there is no such shared server, PostgreSQL cannot be reached, or an instance was not moved; standard error says
       which
`+cli.ExitConfiguration, cli.RecordedEnvironment)
}

// drain returns a sentence about the new state.
func (c *console) drain(ctx context.Context, name string, undo bool) (string, error) {
	if undo {
		if err := c.store.Servers.Undrain(ctx, name); err != nil {
			return "", fmt.Errorf("record that the server gets instances: %w", err)
		}
		return fmt.Sprintf("%s gets instances again.", name), nil
	}
	state, err := c.store.Servers.Drain(ctx, name)
	if err != nil {
		return "", fmt.Errorf("record that the server gets no more instances: %w", err)
	}
	sentence := fmt.Sprintf("%s gets no more instances. It holds %d.", name, state.Instances)
	others, err := c.names.undrained(ctx)
	if err == nil && len(others) == 0 {
		sentence += " No shared server is left that gets any: new instances of shared plans are refused."
	}
	return sentence, err
}

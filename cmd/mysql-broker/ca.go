package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
)

func caCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "ca",
		Short: "Print the CA of dedicated servers, for a platform's trusted certificates",
		Long: `Print, in PEM, the CA that signs the certificates of all dedicated servers, for the trusted certificates of a
platform. The broker creates it when it first needs it, and stores its key encrypted in PostgreSQL.

To replace it, begin each step only after the step before has ended:

  1. ` + "`ca add`" + ` creates a new one. From then on, ca_certificate of credentials has both, and this command prints
     both: give them to the platform, and bind applications again, or restage those that read trusted certificates
  2. ` + "`ca promote`" + ` makes the new one sign: all servers get another certificate within a minute, and keep
     their sessions
  3. ` + "`ca drop-old`" + ` removes the old one from the trusted certificates

Old servers with their own CA keep it, and ca_certificate has both CAs, until
` + "`ca promote`" + `, for which ` + "`ca add`" + ` is optional.`,
		Example: `  mysql-broker ca > mysql-ca.pem`,
		Args:    cobra.NoArgs,
		RunE:    onCAs(config.Stored.Read, app.CA),
	}
	command.AddCommand(
		cli.Describe(&cobra.Command{Use: "add",
			Short: "Make clients of dedicated servers trust a new CA, which signs nothing yet",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Stored.Read, func(ctx context.Context, cfg config.Config) (string, error) {
				return "Added. Give the output of `mysql-broker ca` to the platform.\n", app.AddCA(ctx, cfg)
			})}, caExit, cli.StoredEnvironment),
		cli.Describe(&cobra.Command{Use: "promote",
			Short: "Make the newest CA sign the certificates of all dedicated servers",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Stored.Read, func(ctx context.Context, cfg config.Config) (string, error) {
				return "Promoted. Brokers renew the certificates of their servers within a minute.\n", app.PromoteCA(ctx, cfg)
			})}, caExit, cli.StoredEnvironment),
		cli.Describe(&cobra.Command{Use: "drop-old",
			Short: "Remove old CAs from the trusted ones, unless a server here has a certificate of one",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Dedicated.Read, func(ctx context.Context, cfg config.Config) (string, error) {
				n, err := app.DropOldCAs(ctx, cfg, slog.New(slog.DiscardHandler))
				return fmt.Sprintf("Dropped: %d.\n", n), err
			})}, caExit, cli.DedicatedEnvironment))
	return cli.Describe(command,
		"  0    the CA is printed\n  1    it is not; standard error says why\n"+cli.ExitConfiguration,
		cli.StoredEnvironment)
}

const caExit = "  0    the step is done\n  1    it is not; standard error says why\n" + cli.ExitConfiguration

// onCAs returns the RunE of a command that reads its configuration with read, calls do and prints the result.
func onCAs(read func(getenv func(string) string) (config.Config, error),
	do func(context.Context, config.Config) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		cfg, err := cli.FromEnvironment(cmd, read)
		if err != nil {
			return err
		}
		text, err := do(cmd.Context(), cfg)
		if err == nil {
			_, err = io.WriteString(cmd.OutOrStdout(), text)
		}
		return err
	}
}

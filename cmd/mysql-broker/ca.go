package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
)

func caCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "ca",
		Short: "Print the CA that signs the certificates of dedicated servers, for a platform's trusted certificates",
		Long: `Print, in PEM, the CA that signs the certificates of all dedicated servers, for the trusted certificates of a
platform. It is made when it is first needed, and its key is kept encrypted in PostgreSQL.

To replace it, do each step only when the one before has come to an end:

  1. ` + "`ca add`" + ` makes a new one. From then on, ca_certificate of credentials has both, and this command prints
     both: give them to the platform, and have applications bound anew, or restaged where they read trusted certificates
  2. ` + "`ca promote`" + ` has the new one sign: all servers get another certificate within a minute, and keep their
     sessions
  3. ` + "`ca drop-old`" + ` has the old one trusted no more

Servers of brokers before there was one CA keep their own, beside which ca_certificate has this one, until
` + "`ca promote`" + `, which may follow without ` + "`ca add`" + `.`,
		Example: `  mysql-broker ca > mysql-ca.pem`,
		Args:    cobra.NoArgs,
		RunE:    onCAs(config.Stored, app.CA),
	}
	command.AddCommand(
		describe(&cobra.Command{Use: "add",
			Short: "Have clients of dedicated servers trust a new CA, which signs nothing yet",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Stored, func(ctx context.Context, cfg config.Config) (string, error) {
				return "Added. Give the platform what `mysql-broker ca` prints now.\n", app.AddCA(ctx, cfg)
			})}, caExit, storedEnvironment),
		describe(&cobra.Command{Use: "promote",
			Short: "Have the newest CA sign the certificates of all dedicated servers",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Stored, func(ctx context.Context, cfg config.Config) (string, error) {
				return "Promoted. Brokers renew the certificates of their servers within a minute.\n", app.PromoteCA(ctx, cfg)
			})}, caExit, storedEnvironment),
		describe(&cobra.Command{Use: "drop-old",
			Short: "Have the CAs trusted no more that signed before, unless a server on this host has a certificate of theirs",
			Args:  cobra.NoArgs,
			RunE: onCAs(config.Dedicated, func(ctx context.Context, cfg config.Config) (string, error) {
				n, err := app.DropOldCAs(ctx, cfg, slog.New(slog.DiscardHandler))
				return fmt.Sprintf("Dropped: %d.\n", n), err
			})}, caExit, dedicatedEnvironment))
	return describe(command, "  0    the CA is printed\n  1    it is not; standard error says why\n"+exitConfiguration,
		storedEnvironment)
}

const caExit = "  0    the step is taken\n  1    it is not; standard error says why\n" + exitConfiguration

// onCAs is a command that does something about CAs with what read finds in the environment, and prints what it returns.
func onCAs(read func(getenv func(string) string) (config.Config, error),
	do func(context.Context, config.Config) (string, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		cfg, err := fromEnvironment(cmd, read)
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

package main

import (
	"fmt"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := fromEnvironment(cmd, config.Stored)
			if err != nil {
				return err
			}
			text, err := app.CA(cmd.Context(), cfg)
			fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
	command.AddCommand(addCACommand(), promoteCACommand(), dropOldCAsCommand())
	return describe(command, "  0    the CA is printed\n  1    it is not; standard error says why\n"+exitConfiguration,
		caEnvironment)
}

var caEnvironment = variablesOf("DATABASE_URL", "DATABASE_SERVICE", "ENCRYPTION_KEYSET") + developmentEnvironment

const caExit = "  0    the step is taken\n  1    it is not; standard error says why\n" + exitConfiguration

func addCACommand() *cobra.Command {
	return describe(&cobra.Command{Use: "add",
		Short: "Have clients of dedicated servers trust a new CA, which signs nothing yet",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := fromEnvironment(cmd, config.Stored)
			if err != nil {
				return err
			}
			if err := app.AddCA(cmd.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Added. Give the platform what `mysql-broker ca` prints now.")
			return nil
		}}, caExit, caEnvironment)
}

func promoteCACommand() *cobra.Command {
	return describe(&cobra.Command{Use: "promote",
		Short: "Have the newest CA sign the certificates of all dedicated servers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := fromEnvironment(cmd, config.Stored)
			if err != nil {
				return err
			}
			if err := app.PromoteCA(cmd.Context(), cfg); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "Promoted. Brokers renew the certificates of their servers within a minute.")
			return nil
		}}, caExit, caEnvironment)
}

func dropOldCAsCommand() *cobra.Command {
	return describe(&cobra.Command{Use: "drop-old",
		Short: "Have the CAs trusted no more that signed before, unless a server on this host has a certificate of theirs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := fromEnvironment(cmd, config.Dedicated)
			if err != nil {
				return err
			}
			n, err := app.DropOldCAs(cmd.Context(), cfg, slog.New(slog.DiscardHandler))
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Dropped: %d.\n", n)
			return nil
		}}, caExit, variablesOf("DATABASE_URL", "DATABASE_SERVICE", "ENCRYPTION_KEYSET", "LAUNCHER", "LAUNCHER_DIR",
		"LAUNCHER_MYSQLD")+developmentEnvironment)
}

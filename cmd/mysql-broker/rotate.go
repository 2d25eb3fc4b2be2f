package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
)

func rotateKeysCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Encrypt stored passwords anew with the key that writes in ENCRYPTION_KEYSET, while brokers run",
		Long: `Encrypt every stored password anew that is not encrypted with the key that writes, the third step of replacing
a key: see "mysql-broker keyset --help". A run that was interrupted is completed by the next.`,
		Example: `  cf run-task mysql-broker --command "bin/mysql-broker rotate-keys"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := fromEnvironment(cmd, config.Stored)
			if err != nil {
				return err
			}
			n, err := app.RotateKeys(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("passwords encrypted anew before this failed: %d: %w", n, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Passwords encrypted anew: %d.\n", n)
			return nil
		},
	}
	return describe(command, `  0    every stored password is encrypted with the key that writes
  1    some are not; standard error says why
`+exitConfiguration, storedEnvironment)
}

func rotateAdminPasswordsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-admin-passwords [INSTANCE-ID…]",
		Short: "Give the broker's accounts on dedicated servers, all or some, new passwords, while brokers run",
		Long: `Give the broker's own account on each dedicated server, or on those of the instances named, a new password.
Run it on the brokers' host, with their environment. Instances on which an operation is in progress are left for the
next call; so are those whose server does not answer. Any such makes the exit status 1. Applications notice nothing.`,
		Example: `  mysql-broker rotate-admin-passwords
  mysql-broker rotate-admin-passwords 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10`,
		ValidArgsFunction: completeEach(instanceWords),
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := fromEnvironment(cmd, config.Dedicated)
			if err != nil {
				return err
			}
			left := 0
			rotated, err := app.RotateAdminPasswords(cmd.Context(), cfg, newLogger(slog.LevelWarn), ids,
				func(id string, err error) {
					left++
					fmt.Fprintf(cmd.ErrOrStderr(), "instance %q is left as it is: %v\n", id, err)
				})
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Admin passwords changed: %d.\n", rotated)
			if left > 0 {
				return fmt.Errorf("not changed: %d; run this again later", left)
			}
			return nil
		},
	}
	return describe(command, `  0    all that were asked for have new passwords
  1    some have not; standard error names them
`+exitConfiguration, dedicatedEnvironment)
}

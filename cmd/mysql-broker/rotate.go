package main

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/config"
)

func rotateKeysCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-keys",
		Short: "Encrypt stored passwords anew with the key that writes in ENCRYPTION_KEYSET, while brokers run",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Stored(os.Getenv)
			if err != nil {
				return &configError{err}
			}
			n, err := app.RotateKeys(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("%d passwords were encrypted anew before this failed: %w", n, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d passwords were encrypted anew.\n", n)
			return nil
		},
	}
}

func rotateAdminPasswordsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "rotate-admin-passwords [INSTANCE-ID…]",
		Short: "Give the broker's accounts on dedicated servers, all or some, new passwords, while brokers run",
		Long: `Give the broker's own account on each dedicated server, or on those of the instances named, a new password.
Run it on the brokers' host, with their environment. Instances on which an operation is in progress are left for the
next call; so are those whose server does not answer. Any such makes the exit status 1. Applications notice nothing.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := config.Dedicated(os.Getenv)
			if err != nil {
				return &configError{err}
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
			fmt.Fprintf(cmd.OutOrStdout(), "%d admin passwords were changed.\n", rotated)
			if left > 0 {
				return fmt.Errorf("%d were not: run this again later", left)
			}
			return nil
		},
	}
}

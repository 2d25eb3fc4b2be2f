package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
)

func rotateKeysCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-keys",
		Short: "Encrypt stored passwords again, with the key in use, while brokers run",
		Long: `Encrypt all stored passwords, and the keys of all backups, with the key in use, the third step of replacing a
key: see "mysql-broker keyset --help". The next run completes an interrupted one.`,
		Example: `  cf run-task mysql-broker --command "bin/mysql-broker rotate-keys"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := cli.FromEnvironment(cmd, config.StoredWithBackups.Read)
			if err != nil {
				return err
			}
			n, backups, err := app.RotateKeys(cmd.Context(), cfg)
			if err != nil {
				return fmt.Errorf("passwords encrypted again before this failed: %d: %w", n, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Passwords encrypted again: %d.\n", n)
			if backups > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "Keys of backups encrypted again: %d.\n", backups)
			}
			return nil
		},
	}
	return cli.Describe(command, `  0    every stored password and every backup's key is encrypted with the key in use
  1    some are not, or a recorded backup is not in the object store; standard error says which
`+cli.ExitConfiguration, cli.EnvironmentOf(config.StoredWithBackups))
}

func rotateAdminPasswordsCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "rotate-admin-passwords [INSTANCE…]",
		Short: "Change the broker's passwords on dedicated servers",
		Long: `Change the password of the broker's account on each dedicated server, or on those of the named instances. Run
it on the brokers' host, with their environment. It skips instances that have an operation in progress, or whose server
does not answer; then the exit status is 1, and you can run it again. Applications are not affected.`,
		Example: `  mysql-broker rotate-admin-passwords
  mysql-broker rotate-admin-passwords 7d7c9bb6-4a0f-4f26-9c6d-1f4b7f3a2f10`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			cfg, err := cli.FromEnvironment(cmd, config.Dedicated.Read)
			if err != nil {
				return err
			}
			left := 0
			rotated, err := app.RotateAdminPasswords(cmd.Context(), cfg, cli.Logger(cmd, slog.LevelWarn), ids,
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
	return cli.Describe(command, `  0    all that were asked for have new passwords
  1    some have not; standard error names them
`+cli.ExitConfiguration, cli.DedicatedEnvironment)
}

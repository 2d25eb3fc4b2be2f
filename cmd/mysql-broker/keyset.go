package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/app"
	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
)

func keysetCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "keyset",
		Short: "Print a new ENCRYPTION_KEYSET; whoever has it can read stored passwords",
		Long: `Print a new ENCRYPTION_KEYSET. Whoever has it can read every stored password; without it, nobody can. Keep it
in a file: the first broker records it in the PostgreSQL database, and no broker starts there with another one.

To replace its key, begin each step only when every broker runs with the result of the step before:

  1. give the output of ` + "`keyset add`" + ` to the brokers: they can read with the new key
  2. give them the output of ` + "`keyset promote`" + `: they write with it
  3. run ` + "`mysql-broker rotate-keys`" + `: it encrypts all stored passwords again
  4. give them the output of ` + "`keyset drop-old`" + ``,
		Example: `  (umask 077; mysql-broker keyset > keyset)
  ENCRYPTION_KEYSET="$OLD" mysql-broker keyset add`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			keyset, err := store.NewKeyset()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), keyset)
			return nil
		},
	}
	command.AddCommand(
		changeKeysetCommand("add", "with a new key, which only reads yet", store.AddKey),
		changeKeysetCommand("promote", "with its newest key as the one that writes", store.PromoteKey),
		dropOldCommand())
	return cli.Describe(command, "  0    the keyset is printed", "")
}

// dropOldCommand makes sure that the old keys are not needed any more.
func dropOldCommand() *cobra.Command {
	command := changeKeysetCommand("drop-old", "without the keys that only read", store.DropOldKeys)
	command.Long = command.Short + `.

Give it the environment of the brokers: it refuses to drop a key with which a password in PostgreSQL, a recorded
backup or a log archive is encrypted, and names those that are recorded and not in the object store.`
	force := command.Flags().Bool("force", false, "check nothing: what is encrypted with an old key is lost")
	command.PreRunE = func(cmd *cobra.Command, _ []string) error {
		dropped, err := store.DropOldKeys(cli.Getenv(cmd)("ENCRYPTION_KEYSET"))
		if *force || err != nil { // which RunE returns
			return nil
		}
		cfg, err := cli.FromEnvironment(cmd, config.StoredWithBackups.Read)
		if err == nil {
			err = app.CheckKeys(cmd.Context(), cfg, dropped)
		}
		if err != nil {
			return fmt.Errorf("%w\nThe old keys may be needed. To drop them nevertheless, add --force", err)
		}
		return nil
	}
	return command
}

func changeKeysetCommand(name, with string, change func(string) (string, error)) *cobra.Command {
	return cli.Describe(&cobra.Command{
		Use:   name,
		Short: "Print ENCRYPTION_KEYSET " + with,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text := cli.Getenv(cmd)("ENCRYPTION_KEYSET")
			if text == "" {
				return &cli.ConfigError{Err: errors.New("ENCRYPTION_KEYSET is not set")}
			}
			changed, err := change(text)
			if err != nil {
				return &cli.ConfigError{Err: fmt.Errorf("ENCRYPTION_KEYSET: %w", err)}
			}
			fmt.Fprintln(cmd.OutOrStdout(), changed)
			return nil
		},
	}, `  0    the keyset is printed
  1    an old key that drop-old should drop may be needed; standard error says for what
  78   ENCRYPTION_KEYSET is not set, or this change is not possible; standard error says why`,
		cli.VariablesOf("ENCRYPTION_KEYSET"))
}

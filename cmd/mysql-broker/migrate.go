package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
)

func migrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the PostgreSQL schema to this version; serve does so too",
		Long: `Migrate the PostgreSQL schema to this program's version, and print that version. Brokers of the release before
continue to work. A newer schema does not change. Concurrent migrations wait for one another.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := cli.FromEnvironment(cmd, config.PostgresURL)
			if err != nil {
				return err
			}
			v, err := store.Migrate(cmd.Context(), url)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "The schema is at version %d.\n", v)
			return nil
		},
	}
	return cli.Describe(command, `  0    the schema is at this version or a newer one
  1    it is not; standard error says why
`+cli.ExitConfiguration, cli.VariablesOf("DATABASE_URL", "DATABASE_SERVICE")+cli.DevelopmentEnvironment)
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/store"
)

func migrateCommand() *cobra.Command {
	command := &cobra.Command{
		Use:   "migrate",
		Short: "Bring the PostgreSQL schema to this version; serve does it too",
		Long: `Bring the PostgreSQL schema to this program's version, and print which that is. Brokers of the release before
go on working with it, and a schema that is newer already is left as it is. Those that migrate at the same time take
turns.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := fromEnvironment(cmd, config.PostgresURL)
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
	return describe(command, `  0    the schema is at this version or a newer one
  1    it is not; standard error says why
`+exitConfiguration, variablesOf("DATABASE_URL", "DATABASE_SERVICE")+developmentEnvironment)
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/version"
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
			getenv, err := environment(cmd)
			if err != nil {
				return &configError{err}
			}
			url, err := config.PostgresURL(getenv)
			if err != nil {
				return &configError{err}
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

func catalogCommand() *cobra.Command {
	command := &cobra.Command{Use: "catalog", Short: "Work on a catalog file", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	command.AddCommand(describe(&cobra.Command{
		Use:     "check FILE",
		Short:   "Report everything in a catalog that the broker or Cloud Controller would refuse",
		Example: `  mysql-broker catalog check catalog.yml`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := catalog.Load(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is good: %d plans.\n", args[0], len(c.Plans()))
			return nil
		},
	}, `  0    the catalog is good
  1    it is not, or cannot be read; standard error has a line FILE:LINE: for each mistake`, ""))
	return command
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintf(cmd.OutOrStdout(), "mysql-broker %s (%s)\n", version.Version, version.Go())
		},
	}
}

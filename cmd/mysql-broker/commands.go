package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/store"
)

func migrateCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "migrate",
		Short: "Bring the PostgreSQL schema to this version; serve does it too",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			url, err := config.PostgresURL(os.Getenv)
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
}

func catalogCommand() *cobra.Command {
	command := &cobra.Command{Use: "catalog", Short: "Work on a catalog file", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	command.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Report everything in a catalog that the broker or Cloud Controller would refuse",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := catalog.Load(args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is good: %d plans.\n", args[0], len(c.Plans()))
			return nil
		},
	})
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

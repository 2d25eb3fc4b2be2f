package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/provisioner/backup"
	"mysql-broker/store"
)

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, and the formats that it reads and writes",
		Args:  cobra.NoArgs,
		Run:   func(cmd *cobra.Command, _ []string) { fmt.Fprint(cmd.OutOrStdout(), versionText()) },
	}
}

// versionText is what `version` and --version print.
func versionText() string {
	return fmt.Sprintf("mysql-broker %s (commit %s, %s)\n", version.Version, version.Commit, version.Go()) +
		fmt.Sprintf("Open Service Broker API 2.9 to 2.17, PostgreSQL schema %d, backups of format %d\n",
			store.SchemaVersion(), backup.Format)
}

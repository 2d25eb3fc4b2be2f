package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/version"
)

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

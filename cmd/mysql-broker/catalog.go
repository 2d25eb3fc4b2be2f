package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/cli"
)

func catalogCommand() *cobra.Command {
	command := &cobra.Command{Use: "catalog", Short: "Work on a catalog file", Args: cobra.NoArgs}
	command.AddCommand(cli.Describe(&cobra.Command{
		Use:     "check FILE",
		Short:   "Report all in a catalog that the broker or Cloud Controller refuses",
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

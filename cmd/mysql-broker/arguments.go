package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
)

func atMost(n int) cobra.PositionalArgs { return arguments(0, n) }

func exactly(n int) cobra.PositionalArgs { return arguments(n, n) }

// arguments refuses too many and too few arguments, and empty ones, which a script passes if a variable is not set.
func arguments(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min || len(args) > max || slices.Contains(args, "") {
			return fmt.Errorf("use it as: %s", cmd.UseLine())
		}
		return nil
	}
}

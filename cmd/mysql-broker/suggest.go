package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestBelow has commands that have commands refuse words that are none of them, and say which was meant. Cobra does
// so for the first word alone.
func suggestBelow(parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if !c.HasSubCommands() {
			continue
		}
		if !c.Runnable() {
			c.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
		c.SuggestionsMinimumDistance = 2
		check := c.Args
		c.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			if err == nil || len(args) == 0 {
				return err
			}
			meant := c.SuggestionsFor(args[0])
			if len(meant) == 0 {
				return err
			}
			return fmt.Errorf("%w\n\nDid you mean this?\n\t%s", err, strings.Join(meant, "\n\t"))
		}
	}
}

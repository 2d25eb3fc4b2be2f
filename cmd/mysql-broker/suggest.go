package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// suggestBelow makes commands with subcommands refuse unknown words, and suggest a subcommand. Cobra does so only for
// the first word.
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

package client

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// completionTime limits completions that query the broker.
const completionTime = 2 * time.Second

// complete completes the arguments of a command by their names in its usage, such as PLAN NAME. It does not complete
// the last argument of a command that creates something, because that is a new name.
func (o *options) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	arguments := slices.DeleteFunc(strings.Fields(cmd.Use)[1:], func(a string) bool { return a != strings.ToUpper(a) })
	if len(args) >= len(arguments) || strings.HasPrefix(cmd.Name(), "create-") && len(args) == len(arguments)-1 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	if strings.Trim(arguments[len(args)], "[]") == "FILE" {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return o.words(cmd, arguments[len(args)], args), cobra.ShellCompDirectiveNoFileComp
}

func (o *options) completePlan(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return o.words(cmd, "PLAN", args), cobra.ShellCompDirectiveNoFileComp
}

// words lists the items of a kind. On an error it returns none; the command itself reports the error.
func (o *options) words(cmd *cobra.Command, kind string, args []string) []string {
	s, err := o.session(cmd)
	if err != nil {
		return nil
	}
	switch kind {
	case "PLAN":
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		names, _ := s.planNames(ctx)
		return names
	case "NAME":
		all, _ := s.inventory.all()
		return slices.Sorted(maps.Keys(all))
	case "KEY":
		if in, err := s.inventory.instance(args[0]); err == nil {
			return slices.Sorted(maps.Keys(in.Keys))
		}
	}
	return nil
}

// planNames lists the plans of the catalog, with their offerings if there are several.
func (s *session) planNames(ctx context.Context) (names []string, err error) {
	c, err := s.fetchCatalog(ctx)
	for _, offering := range c.Services {
		for _, p := range offering.Plans {
			name := p.Name
			if len(c.Services) > 1 {
				name = offering.Name + "/" + p.Name
			}
			names = append(names, name)
		}
	}
	return names, err
}

// completeKeys offers an instance's keys for the flag --key.
func (o *options) completeKeys(cmd *cobra.Command) {
	err := cmd.RegisterFlagCompletionFunc("key", func(cmd *cobra.Command, args []string, _ string) (
		[]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return o.words(cmd, "KEY", args), cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // there is no such flag
	}
}

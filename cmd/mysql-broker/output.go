package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
)

// output is how a list is to be printed.
type output struct {
	json  bool
	limit int
}

func (o *output) flags(command *cobra.Command) {
	command.Flags().BoolVar(&o.json, "json", false, "print JSON")
	command.Flags().IntVar(&o.limit, "limit", 0, "print so many rows at most; 0 prints all")
}

func (o *output) listing(cmd *cobra.Command, columns ...string) *listing {
	return newListing(cmd.OutOrStdout(), o.json, o.limit, columns...)
}

// unlessEnough is an error unless that only says that a list was cut short as asked for.
func unlessEnough(err error) error {
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// since is for people: how long ago it was, by this machine's clock.
func since(t time.Time) string { return age(int64(max(time.Since(t), 0).Seconds())) }

// at is for people: when it was, and how long ago.
func at(t time.Time) string {
	ago := "just now"
	if time.Since(t) >= time.Second {
		ago = since(t) + " ago"
	}
	return fmt.Sprintf("%s (%s)", t.Format(time.RFC3339), ago)
}

// named is for people: a name, if there is one, and an id.
func named(name, id string) string {
	if name == "" || id == "" {
		return cmp.Or(name, id)
	}
	return name + " (" + id + ")"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func atMost(n int) cobra.PositionalArgs { return arguments(0, n) }

func exactly(n int) cobra.PositionalArgs { return arguments(n, n) }

// arguments refuses more or fewer arguments, and empty ones, which a script passes whose variable is not set.
func arguments(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min || len(args) > max || slices.Contains(args, "") {
			return fmt.Errorf("use it as: %s", cmd.UseLine())
		}
		return nil
	}
}

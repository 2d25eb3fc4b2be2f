package main

import (
	"context"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/dev"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// completions is how many are offered at most.
const completions = 50

// words returns the completions of an argument. args are the arguments before it. The shell filters them.
type words func(ctx context.Context, c *console, args []string, typed string) ([]string, error)

// completeArgs completes the arguments of a command, each with its own words. If these cannot be read, there are none;
// the command itself reports why.
func completeArgs(by ...words) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) (found []string, _ cobra.ShellCompDirective) {
		if len(args) >= len(by) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		getenv, _, err := dev.Environment(getenvOf(cmd))
		if err == nil {
			ctx, cancel := context.WithTimeout(cmd.Context(), config.AnswerTime(getenv))
			defer cancel()
			err = openConsole(ctx, getenv, config.ForOperator, func(ctx context.Context, c *console) (err error) {
				found, err = by[len(args)](ctx, c, args, typed)
				return err
			})
		}
		if err != nil {
			cobra.CompDebugln(err.Error(), false) // goes to BASH_COMP_DEBUG_FILE
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeEach completes a flag, or any number of arguments, with the same words.
func completeEach(by words) cobra.CompletionFunc {
	one := completeArgs(by)
	return func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return one(cmd, nil, typed)
	}
}

func completeFlag(command *cobra.Command, name string, by cobra.CompletionFunc) {
	if err := command.RegisterFlagCompletionFunc(name, by); err != nil {
		panic(err) // there is no such flag
	}
}

func planWords(_ context.Context, c *console, _ []string, _ string) (names []string, err error) {
	for _, p := range c.plans {
		names = append(names, p.Name)
	}
	return names, nil
}

func serverWords(ctx context.Context, c *console, _ []string, _ string) ([]string, error) {
	return c.serverNames(ctx)
}

func instanceWords(ctx context.Context, c *console, _ []string, typed string) (ids []string, err error) {
	found, _, err := c.store.InstancesAfter(ctx, typed, store.InstanceQuery{}, completions)
	for _, i := range found {
		ids = append(ids, i.ID)
	}
	return ids, err
}

// backupWords are the latest complete backups.
func backupWords(ctx context.Context, c *console, _ []string, _ string) (ids []string, err error) {
	all, err := c.store.BackupsOf(ctx, "")
	for _, b := range all[:min(len(all), completions)] {
		if b.State == store.BackupComplete {
			ids = append(ids, b.ID)
		}
	}
	return ids, err
}

// bindingWords are the bindings of the instance in the argument before.
func bindingWords(ctx context.Context, c *console, args []string, _ string) (ids []string, err error) {
	err = c.store.EachBinding(ctx, store.BindingQuery{InstanceID: args[0]}, func(b store.ListedBinding) error {
		ids = append(ids, b.ID)
		return nil
	})
	return ids, err
}

// taskWords are the newest tasks, in a state unless that is "".
func taskWords(state string) words {
	return func(ctx context.Context, c *console, _ []string, _ string) (tokens []string, err error) {
		found, _, err := c.store.TasksBefore(ctx, 0, store.TaskQuery{State: state}, completions)
		for _, t := range found {
			tokens = append(tokens, task.Token(t.ID))
		}
		return tokens, err
	}
}

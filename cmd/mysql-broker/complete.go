package main

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/dev"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	completionTime = 2 * time.Second // that a person waits for TAB
	completions    = 50              // offered at most: more help nobody
)

// completion finds words that continue what was typed, args being the words before. Where it cannot look, it finds
// none: whoever runs the command is told why.
type completion func(cmd *cobra.Command, args []string, typed string) []string

// each completes every argument, none of which is a file.
func (c completion) each() cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c(cmd, args, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeArgs completes the arguments of a command, each by its own.
func completeArgs(by ...completion) cobra.CompletionFunc {
	return completion(func(cmd *cobra.Command, args []string, typed string) []string {
		if len(args) >= len(by) {
			return nil
		}
		return by[len(args)](cmd, args, typed)
	}).each()
}

func completeFlag(command *cobra.Command, name string, words completion) {
	if err := command.RegisterFlagCompletionFunc(name, words.each()); err != nil {
		panic(err) // there is no such flag
	}
}

func fixed(words []string) completion {
	return func(*cobra.Command, []string, string) []string { return words }
}

func completePlans(*cobra.Command, []string, string) (names []string) {
	getenv, _, err := dev.Environment()
	if err != nil {
		return nil
	}
	c, err := catalog.Load(config.CatalogPath(getenv))
	if err != nil {
		return nil
	}
	for _, p := range c.Plans() {
		names = append(names, p.Name)
	}
	return names
}

// recorded completes with what fn finds in PostgreSQL, which calls add with each until it returns an error.
func recorded(fn func(ctx context.Context, c *console, args []string, typed string, add func(string) error) error,
) completion {
	return func(cmd *cobra.Command, args []string, typed string) (words []string) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
		defer cancel()
		getenv, _, err := dev.Environment()
		if err != nil {
			return nil
		}
		err = openConsole(ctx, getenv, func(ctx context.Context, c *console) error {
			return fn(ctx, c, args, typed, func(word string) error {
				if strings.HasPrefix(word, typed) {
					words = append(words, word)
				}
				if len(words) == completions {
					return errEnough
				}
				return nil
			})
		})
		if unlessEnough(err) != nil {
			cobra.CompDebugln(err.Error(), false) // BASH_COMP_DEBUG_FILE has it
		}
		return words
	}
}

var completeServers = recorded(func(ctx context.Context, c *console, _ []string, _ string,
	add func(string) error) error {
	names, err := c.serverNames(ctx)
	for _, name := range names {
		if err == nil {
			err = add(name)
		}
	}
	return err
})

var completeInstances = recorded(func(ctx context.Context, c *console, _ []string, typed string,
	add func(string) error) error {
	ids, err := c.store.InstancesFrom(ctx, typed, completions)
	for _, id := range ids {
		if err == nil {
			err = add(id)
		}
	}
	return err
})

var completeBindings = recorded(func(ctx context.Context, c *console, args []string, _ string,
	add func(string) error) error {
	return c.store.EachBinding(ctx, store.BindingQuery{InstanceID: args[0]}, func(b store.ListedBinding) error {
		return add(b.ID)
	})
})

// completeTasks offers the newest tasks first.
func completeTasks(q store.TaskQuery) completion {
	return recorded(func(ctx context.Context, c *console, _ []string, _ string, add func(string) error) error {
		return c.store.EachTask(ctx, q, func(t store.ListedTask) error { return add(task.Token(t.ID)) })
	})
}

// Package cli has what all commands share: their environment, their help, and what they say of mistakes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/dev"
	"mysql-broker/visible"
)

// environmentKey is the key of the environment in a command's context.
type environmentKey struct{}

// WithEnvironment returns a context for commands whose environment getenv reads.
func WithEnvironment(ctx context.Context, getenv func(string) string) context.Context {
	return context.WithValue(ctx, environmentKey{}, getenv)
}

// Getenv returns what reads the environment of a command.
func Getenv(cmd *cobra.Command) func(string) string {
	return cmd.Context().Value(environmentKey{}).(func(string) string)
}

// ConfigError marks an error in the configuration.
type ConfigError struct{ Err error }

func (e *ConfigError) Error() string { return "invalid configuration:\n" + e.Err.Error() }

func (e *ConfigError) Unwrap() error { return e.Err }

// Logger writes to a command's standard error: JSON, or text on a terminal.
func Logger(cmd *cobra.Command, level slog.Level) *slog.Logger {
	w, options := cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}
	if OnTerminal(w) {
		return slog.New(slog.NewTextHandler(visible.Writer(w), options))
	}
	return slog.New(slog.NewJSONHandler(visible.Writer(w), options))
}

// Reading is a function of package config.
type Reading = func(getenv func(string) string) (config.Config, error)

// Load reads a configuration, and the catalog.
func Load(read Reading, getenv func(string) string) (config.Config, *catalog.Catalog, error) {
	cfg, problems := read(getenv)
	c, err := catalog.Load(cfg.CatalogPath)
	if err := errors.Join(problems, err); err != nil {
		return cfg, nil, &ConfigError{err}
	}
	return cfg, c, nil
}

// Environment is that of the process. If that has no PostgreSQL, it is that of the broker of "mysql-broker dev", and
// Environment prints a line about it.
func Environment(cmd *cobra.Command) (func(string) string, error) {
	getenv, file, err := dev.Environment(Getenv(cmd))
	if err != nil {
		return nil, &ConfigError{err}
	}
	if file != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "This is the development broker of %s.\n", file)
	}
	return getenv, nil
}

// FromEnvironment calls read, a function of package config, with the environment.
func FromEnvironment[T any](cmd *cobra.Command,
	read func(getenv func(string) string) (T, error)) (needed T, err error) {
	getenv, err := Environment(cmd)
	if err != nil {
		return needed, err
	}
	if needed, err = read(getenv); err != nil {
		return needed, &ConfigError{err}
	}
	return needed, nil
}

func OnTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

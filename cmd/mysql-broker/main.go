// Command mysql-broker is a service broker for MySQL and MariaDB.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/client"
	"mysql-broker/cmd/mysql-broker/dev"
	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/store"
	"mysql-broker/visible"
)

// exitConfig is the exit status for an invalid configuration: EX_CONFIG of sysexits.h.
const exitConfig = 78

func main() {
	// If the broker runs as root, servers run as another user, who must be able to enter their directories. Files with
	// secrets get an explicit mode.
	syscall.Umask(0o022)
	if err := forbidCores(corePattern); err != nil {
		fmt.Fprintln(os.Stderr, "cannot forbid core dumps, which would hold passwords:", err)
	}
	if err := becomeUnreadable(); err != nil {
		fmt.Fprintln(os.Stderr, "cannot keep other processes from reading this one's environment:", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run executes the command that args name, until ctx ends, and returns its exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (status int) {
	root := &cobra.Command{Use: "mysql-broker", Short: "Service broker for MySQL and MariaDB", SilenceUsage: true,
		SilenceErrors: true, Version: version.Version}
	root.SetVersionTemplate(versionText())
	root.SetHelpTemplate(helpTemplate)
	root.AddCommand(serveCommand(), devCommand(), migrateCommand(), doctorCommand(), catalogCommand(), keysetCommand(),
		rotateKeysCommand(), caCommand(), rotateAdminPasswordsCommand(), rotateBindingsCommand(), versionCommand(),
		client.Command(getenv),
		instancesCommand(), bindingsCommand(), tasksCommand(), retainedCommand(), backupsCommand(), quotasCommand(),
		auditCommand(), serversCommand(), drainCommand(), moveCommand(), upgradeCommand(), recoverCommand())
	root.InitDefaultCompletionCmd()
	suggestBelow(root)
	root.SetFlagErrorFunc(flagError)
	wrapHelp(root)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(context.WithValue(ctx, environmentKey{}, getenv))
	if err == nil {
		return 0
	}
	err = usageError(command, err)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		if _, file, _ := dev.Environment(getenv); file != "" {
			err = fmt.Errorf("%w\nIf you mean the development broker of %s: `make run` is not running", err, file)
		}
	}
	if missing, ok := errors.AsType[*store.MissingKeyError](err); ok {
		err = &configError{fmt.Errorf("ENCRYPTION_KEYSET: %w", missing)}
	} else if foreign, ok := errors.AsType[*store.ForeignKeysetError](err); ok {
		err = &configError{fmt.Errorf("ENCRYPTION_KEYSET: %w", foreign)}
	}
	fmt.Fprintln(stderr, visible.Text(err.Error()))
	if _, ok := errors.AsType[*configError](err); ok {
		return exitConfig
	}
	return 1
}

// environmentKey is the key of the environment in a command's context.
type environmentKey struct{}

// getenvOf returns what reads the environment in which run executes the command.
func getenvOf(cmd *cobra.Command) func(string) string {
	return cmd.Context().Value(environmentKey{}).(func(string) string)
}

// configError marks an error in the configuration.
type configError struct{ err error }

func (e *configError) Error() string { return "invalid configuration:\n" + e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// newLogger writes to a command's standard error: JSON, or text on a terminal.
func newLogger(cmd *cobra.Command, level slog.Level) *slog.Logger {
	w, options := cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level}
	if onTerminal(w) {
		return slog.New(slog.NewTextHandler(visible.Writer(w), options))
	}
	return slog.New(slog.NewJSONHandler(visible.Writer(w), options))
}

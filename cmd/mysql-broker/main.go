// Command mysql-broker is a service broker for MySQL and MariaDB.
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"mysql-broker/cmd/mysql-broker/client"
	"mysql-broker/store"
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
	defer stop()
	root := &cobra.Command{Use: "mysql-broker", Short: "Service broker for MySQL and MariaDB", SilenceUsage: true,
		SilenceErrors: true}
	root.SetHelpTemplate(helpTemplate)
	root.AddCommand(serveCommand(), devCommand(), migrateCommand(), doctorCommand(), catalogCommand(), keysetCommand(),
		rotateKeysCommand(), caCommand(), rotateAdminPasswordsCommand(), rotateBindingsCommand(), versionCommand(),
		client.Command(),
		instancesCommand(), bindingsCommand(), tasksCommand(), retainedCommand(), backupsCommand(), quotasCommand(),
		auditCommand(), serversCommand(), drainCommand(), moveCommand(), upgradeCommand(), recoverCommand())
	root.InitDefaultCompletionCmd()
	suggestBelow(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	if missing, ok := errors.AsType[*store.MissingKeyError](err); ok {
		err = &configError{fmt.Errorf("ENCRYPTION_KEYSET: %w", missing)}
	} else if foreign, ok := errors.AsType[*store.ForeignKeysetError](err); ok {
		err = &configError{fmt.Errorf("ENCRYPTION_KEYSET: %w", foreign)}
	}
	fmt.Fprintln(os.Stderr, err)
	stop()
	if _, ok := errors.AsType[*configError](err); ok {
		os.Exit(exitConfig)
	}
	os.Exit(1)
}

// configError marks an error in the configuration.
type configError struct{ err error }

func (e *configError) Error() string { return "The configuration cannot work:\n" + e.err.Error() }
func (e *configError) Unwrap() error { return e.err }

// newLogger writes JSON, or text on a terminal.
func newLogger(level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if term.IsTerminal(int(os.Stderr.Fd())) {
		return slog.New(slog.NewTextHandler(os.Stderr, options))
	}
	return slog.New(slog.NewJSONHandler(os.Stderr, options))
}

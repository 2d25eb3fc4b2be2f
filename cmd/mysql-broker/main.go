// Command mysql-broker is a service broker for MySQL and MariaDB.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"mysql-broker/cmd/mysql-broker/cli"
	"mysql-broker/cmd/mysql-broker/client"
	"mysql-broker/cmd/mysql-broker/dev"
	"mysql-broker/cmd/mysql-broker/operator"
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
	ctx, stop := signal.NotifyContext(context.Background(), stops()...)
	status := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// stops are the signals that end a command in good order. One is sent when the terminal closes, except under nohup.
func stops() []os.Signal {
	all := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// commands returns the program with all its commands.
func commands(getenv func(string) string) *cobra.Command {
	root := &cobra.Command{Use: "mysql-broker", Short: "Service broker for MySQL and MariaDB", SilenceUsage: true,
		SilenceErrors: true, Version: version.Version}
	root.SetVersionTemplate(versionText())
	root.SetHelpTemplate(cli.HelpTemplate)
	root.AddCommand(serveCommand(), devCommand(), migrateCommand(), catalogCommand(), keysetCommand(), rotateKeysCommand(),
		caCommand(), rotateAdminPasswordsCommand(), versionCommand(), client.Command(getenv))
	root.AddCommand(operator.Commands()...)
	root.InitDefaultCompletionCmd()
	cli.SuggestBelow(root)
	root.SetFlagErrorFunc(cli.FlagError)
	return root
}

// run executes the command that args name, until ctx ends, and returns its exit status.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (status int) {
	root := commands(getenv)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteContextC(cli.WithEnvironment(ctx, getenv))
	if err == nil {
		return 0
	}
	err = cli.UsageError(command, err)
	if failed, ok := errors.AsType[*net.OpError](err); ok && failed.Op == "dial" {
		if _, file, _ := dev.Environment(getenv); file != "" {
			err = fmt.Errorf("%w\nIf you mean the development broker of %s: `make run` is not running", err, file)
		}
	}
	if missing, ok := errors.AsType[*store.MissingKeyError](err); ok {
		err = &cli.ConfigError{Err: fmt.Errorf("ENCRYPTION_KEYSET: %w", missing)}
	} else if foreign, ok := errors.AsType[*store.ForeignKeysetError](err); ok {
		err = &cli.ConfigError{Err: fmt.Errorf("ENCRYPTION_KEYSET: %w", foreign)}
	}
	fmt.Fprintln(stderr, visible.Text(err.Error()))
	if _, ok := errors.AsType[*cli.ConfigError](err); ok {
		return exitConfig
	}
	return 1
}

// Command with-servers runs a command with servers for its tests: PostgreSQL and one mysqld for each installed, all
// private, started for it and gone after it. The command gets a $TMPDIR of its own, which ends with it, and so do all
// processes that have files there: what a test leaves that was interrupted or ran out of time. It ends with the
// command's exit code.
//
//	go run ./test/servers/with-servers go test ./...
//
// $MYSQLD names more mysqld to run on, joined by colons. $REQUIRE_FLAVOURS, e.g. mariadb,mysql, makes it fail where
// one of these flavours is missing.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"mysql-broker/test/servers"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: with-servers COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "with-servers:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(command []string) (code int, err error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	var fleet servers.Fleet
	defer func() { err = errors.Join(err, fleet.Stop(context.Background())) }()
	environment, err := start(&fleet, signals)
	if err != nil {
		return 1, err
	}
	dir, err := newTempDir()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, dir.remove()) }()
	return runCommand(command, append(environment, "TMPDIR="+string(dir), servers.SharedDirVar+"="+string(dir)), signals)
}

// start returns the variables by which test binaries find the servers. A signal ends the wait for them.
func start(fleet *servers.Fleet, signals <-chan os.Signal) ([]string, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	go func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("ended by the signal %q", s))
		case <-ctx.Done():
		}
	}()
	mysqls, err := fleet.AllMySQL(ctx)
	if err != nil {
		return nil, err
	}
	if err := requireFlavours(os.Getenv("REQUIRE_FLAVOURS"), mysqls); err != nil {
		return nil, err
	}
	postgresURL, err := fleet.PostgresURL(ctx)
	if err != nil {
		return nil, err
	}
	list, err := json.Marshal(mysqls)
	if err != nil {
		return nil, err
	}
	return []string{servers.PostgresURLVar + "=" + postgresURL, servers.MySQLVar + "=" + string(list)}, nil
}

func requireFlavours(required string, mysqls []servers.MySQL) error {
	for flavour := range strings.SplitSeq(required, ",") {
		if flavour = strings.TrimSpace(flavour); flavour == "" {
			continue
		}
		if !slices.ContainsFunc(mysqls, func(s servers.MySQL) bool { return s.Flavour == flavour }) {
			return fmt.Errorf("tests must run on %s, but no %s server is installed and $MYSQLD names none", flavour, flavour)
		}
	}
	return nil
}

// runCommand runs the command in a process group of its own, so that a signal reaches all of it, and once.
func runCommand(command, environment []string, signals <-chan os.Signal) (code int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, s.(syscall.Signal))
		case err := <-ended:
			return exitCode(err)
		}
	}
}

// exitCode is the command's, or 128 and the signal that killed it, as shells have it.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0, err
	}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal()), nil
	}
	return exit.ExitCode(), nil
}

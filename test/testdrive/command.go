package testdrive

import (
	"bytes"
	"context"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
)

// Output is the output and the exit status of a command.
type Output struct {
	Status int
	Stdout string
	Stderr string
}

// Main executes commands for Run in the test's process, if the tests of the program have set it: that takes a hundredth
// of the time of the compiled program.
var Main func(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) (status int)

// Run runs the broker's program with these arguments and only this environment, and waits until it ends.
func Run(t testing.TB, env map[string]string, args ...string) Output {
	t.Helper()
	if Main != nil {
		return runMain(t, env, args)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	cmd := exec.CommandContext(ctx, binaryFor(t, env), args...)
	cmd.Dir, cmd.Env = t.TempDir(), environ(env)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ctx.Err() != nil || cmd.ProcessState == nil {
		t.Fatalf("%v: %v; output:\n%s%s", args, err, &stdout, &stderr)
	}
	return Output{Status: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

func runMain(t testing.TB, env map[string]string, args []string) Output {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limits.Stuck)
	defer cancel()
	stdout, stderr := newLogFile(), newLogFile()
	status := Main(ctx, append([]string{}, args...), func(name string) string { return env[name] }, stdout, stderr)
	if ctx.Err() != nil {
		t.Fatalf("%v: %v; output:\n%s%s", args, ctx.Err(), stdout.text(), stderr.text())
	}
	return Output{Status: status, Stdout: stdout.text(), Stderr: stderr.text()}
}

// Command prepares a command of the program. The test starts and ends it.
func Command(t testing.TB, env map[string]string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), binaryFor(t, env), args...)
	cmd.Dir, cmd.Env = t.TempDir(), environ(env)
	return cmd
}

// ClientProgram is the path of a command line client of a flavour: beside its mysqld, as in the trees that `make mysql97`
// makes, or in PATH.
func ClientProgram(t testing.TB, flavour, name string) string {
	t.Helper()
	beside := filepath.Join(filepath.Dir(binaryOf(t, flavour).Path), name)
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Expect fails the test unless the command ended with this status, and returns the output.
func (o Output) Expect(t testing.TB, status int) Output {
	t.Helper()
	if o.Status != status {
		t.Fatalf("exit status %d instead of %d; output:\n%s%s", o.Status, status, o.Stdout, o.Stderr)
	}
	return o
}

// environ is the environment of a process of the broker. It opens few connections to PostgreSQL, as dozens run at once
// on one server. Tests connect with the same URL, but pgx.Connect refuses the parameter.
func environ(env map[string]string) []string {
	all := make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		if name == "DATABASE_URL" && strings.Contains(value, "?") && !strings.Contains(value, "pool_max_conns") {
			value += "&pool_max_conns=4"
		}
		all = append(all, name+"="+value)
	}
	return all
}

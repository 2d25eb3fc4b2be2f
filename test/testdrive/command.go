package testdrive

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/admit"
	"mysql-broker/test/limits"
	"mysql-broker/test/logged"
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
	ctx, cancel := context.WithTimeout(context.Background(), limits.Stuck)
	defer cancel()
	if Main != nil {
		var stdout, stderr logged.Text
		status := Main(ctx, append([]string{}, args...), func(name string) string { return env[name] }, &stdout, &stderr)
		require.NoError(t, ctx.Err(), "%v; output:\n%s%s", args, &stdout, &stderr)
		return Output{Status: status, Stdout: stdout.String(), Stderr: stderr.String()}
	}
	cmd := exec.CommandContext(ctx, binaryFor(t, env), args...)
	cmd.Dir, cmd.Env = t.TempDir(), Environ(env)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	require.True(t, ctx.Err() == nil && cmd.ProcessState != nil, "%v: %v; output:\n%s%s", args, err, &stdout, &stderr)
	return Output{Status: cmd.ProcessState.ExitCode(), Stdout: stdout.String(), Stderr: stderr.String()}
}

// Command prepares a command of the program. The test starts and ends it.
func Command(t testing.TB, env map[string]string, args ...string) *exec.Cmd {
	return command(t, env, append([]string{binaryFor(t, env)}, args...)...)
}

// ClientProgram is the path of a command line client of a flavour: beside its mysqld, as in the trees that `make mysql97`
// makes, or in PATH.
func ClientProgram(t testing.TB, flavour, name string) string {
	beside := filepath.Join(filepath.Dir(binaryOf(t, flavour).Path), name)
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	path, err := exec.LookPath(name)
	require.NoError(t, err)
	return path
}

// Expect fails the test unless the command ended with this status, and returns the output.
func (o Output) Expect(t testing.TB, status int) Output {
	require.Equal(t, status, o.Status, "exit status %d instead of %d; output:\n%s%s", o.Status, status, o.Stdout, o.Stderr)
	return o
}

// Environ is the environment of a process of the broker. It opens few connections to PostgreSQL, as dozens run at once
// on one server. Tests connect with the same URL, but pgx.Connect refuses the parameter.
func Environ(env map[string]string) []string {
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

// Terminal is where a person types client commands.
type Terminal struct{ Env map[string]string }

// Terminal is that of a person whom nobody has told of the broker's instances yet.
func (p Platform) Terminal(t *testing.T) Terminal {
	return Terminal{map[string]string{"BROKER_URL": p.URL, "BROKER_USERNAME": p.Username, "BROKER_PASSWORD": p.Password,
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json")}}
}

// Run returns what a command that succeeds prints.
func (u Terminal) Run(t *testing.T, args ...string) string {
	return Run(t, u.Env, append([]string{"client"}, args...)...).Expect(t, 0).Stdout
}

// Expect fails the test unless the command succeeds and prints a text.
func (u Terminal) Expect(t *testing.T, text string, args ...string) {
	out := u.Run(t, args...)
	assert.True(t, strings.Contains(out, text), "client %s printed %q without %q", strings.Join(args, " "), out, text)
}

// Read decodes the one JSON document that a command prints with --json.
func (u Terminal) Read(t *testing.T, document any, args ...string) {
	out := u.Run(t, append(args, "--json")...)
	err := json.Unmarshal([]byte(out), document)
	require.True(t, err == nil, "client %s --json: %v: %q", strings.Join(args, " "), err, out)
}

// Refused fails the test unless the command fails and says why.
func (u Terminal) Refused(t *testing.T, why string, args ...string) {
	said := Run(t, u.Env, append([]string{"client"}, args...)...).Expect(t, 1).Stderr
	assert.True(t, strings.Contains(said, why), "client %s says %q without %q", strings.Join(args, " "), said, why)
}

// DevEnvironment is the environment of a person who tries the broker: a state directory, a mysqld of that flavour, a
// catalog. The kernel chooses PORT, so that tests do not collide.
func DevEnvironment(t testing.TB, flavour string) map[string]string {
	admit.Enter(t, admit.Postgres+admit.Broker+serverUnits(flavour))
	return map[string]string{
		"MYSQL_BROKER_DEV_DIR":      LauncherDir(t),
		"MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json"),
		"MYSQLD":                    binaryOf(t, flavour).Path + ":" + os.Getenv("MYSQLD"), // the first counts
		"CATALOG":                   filepath.Join(Root(), "catalog.yml"),
		"PORT":                      "0",
		"PATH":                      os.Getenv("PATH"),
	}
}

// StartDev runs `dev` until the test ends, and returns when it says that it is ready.
func StartDev(t testing.TB, env map[string]string) *Broker {
	b := Launch(t, env, "dev")
	line := b.AwaitLog(t, "The broker is ready at ")
	b.AwaitLog(t, "Ctrl-C stops everything")
	_, rest, _ := strings.Cut(line, " at ")
	b.URL, _, _ = strings.Cut(rest, ",")
	raw, err := os.ReadFile(filepath.Join(env["MYSQL_BROKER_DEV_DIR"], "client.json"))
	require.NoError(t, err, "what the client needs was not left for it")
	var address struct{ URL, Username, Password string }
	require.NoError(t, json.Unmarshal(raw, &address), "client.json")
	assert.Equal(t, b.URL, address.URL, "client.json has the URL %s, but %s was printed", address.URL, b.URL)
	b.Username, b.Password = address.Username, address.Password
	return b
}

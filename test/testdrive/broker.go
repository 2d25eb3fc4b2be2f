// Package testdrive drives the compiled broker as platforms and operators do: over HTTP and by signals.
package testdrive

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/launchers"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/store"
	"mysql-broker/test/admit"
	"mysql-broker/test/limits"
	"mysql-broker/test/logged"
	"mysql-broker/test/network"
	"mysql-broker/test/servers"
)

// Credentials of every broker under test.
const (
	Username = "platform"
	Password = "correct-horse-battery"
)

// Root is the top folder of the project.
var Root = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		panic(fmt.Sprintf("go env GOMOD: %v", err))
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
})

// Environment is what `serve` needs for a broker with a new PostgreSQL database, one shared server, and a launcher of
// dedicated servers of the same flavour. The launcher's servers are stopped when the test ends.
func Environment(t testing.TB, shared servers.MySQL) map[string]string {
	admit.Enter(t, admit.Broker)
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	low, high := PortRange(t)
	env := map[string]string{
		"PORT":              "0",
		"BROKER_USERNAME":   Username,
		"BROKER_PASSWORD":   Password,
		"DATABASE_URL":      servers.Postgres(t),
		"ENCRYPTION_KEYSET": keyset,
		"MYSQL_SERVERS":     Encode(t, []any{Described("shared-1", shared)}),
		"CATALOG":           filepath.Join(Root(), "catalog.yml"),
		"LAUNCHER":          "process",
		"LAUNCHER_DIR":      LauncherDirWithTemplates(t, shared.Flavour),
		"LAUNCHER_PORTS":    fmt.Sprintf("%d-%d", low, high),
		"ANSWER_TIMEOUT":    "30s", // a busy machine is no reason to pass a server over
		"LAUNCHER_MYSQLD":   binaryOf(t, shared.Flavour).Path,
		"PATH":              os.Getenv("PATH"),
	}
	own := maps.Clone(env) // tests change env
	t.Cleanup(func() {
		l, err := launchers.OpenHere(own, launcher.Options{})
		require.NoError(t, err, "open the launcher to stop its servers")
		killAll(t, l)
	})
	return env
}

// LauncherDirWithTemplates returns a launcher's directory with the template from the launcher of the tests' servers of
// that flavour, because creating one takes seconds.
func LauncherDirWithTemplates(t testing.TB, flavour string) string {
	all := servers.AllMySQL(t)
	made := slices.IndexFunc(all, func(s servers.MySQL) bool { return s.Flavour == flavour })
	require.True(t, made >= 0, "no server is of flavour %s", flavour)
	dir := LauncherDir(t)
	require.NoError(t, os.Symlink(all[made].Templates, filepath.Join(dir, templatesName)))
	return dir
}

const templatesName = "templates" // as the launcher calls them

// OwnTemplates makes the launcher of an environment, which no broker has used yet, create its own template.
func OwnTemplates(t testing.TB, env map[string]string) {
	require.NoError(t, os.Remove(filepath.Join(env["LAUNCHER_DIR"], templatesName)))
}

// LauncherDir has a short path, because of socket paths, and is accessible to the user that servers run as.
func LauncherDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "mb")
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir), "remove the launcher's directory") })
	return dir
}

var binaries = sync.OnceValue(func() []mysqld.Binary {
	return mysqld.FindBinaries(filepath.SplitList(os.Getenv("MYSQLD"))...)
})

func binaryOf(t testing.TB, flavour string) mysqld.Binary {
	found := binaries()
	i := slices.IndexFunc(found, func(b mysqld.Binary) bool { return b.Flavour == flavour })
	require.True(t, i >= 0, "no mysqld of flavour %s among %v", flavour, found)
	return found[i]
}

// killAll kills the servers of a launcher; nobody needs their data any more.
func killAll(t testing.TB, l launcher.Stopper) {
	ended, end := context.WithCancel(context.Background())
	end()
	assert.NoError(t, l.StopAll(ended), "kill the servers")
}

// Broker is a running broker.
type Broker struct {
	URL      string
	Username string
	Password string
	OnAnswer func(Response) // called with every response, if not nil
	cmd      *exec.Cmd
	exited   chan struct{} // closed once the process has ended
	log      *logged.Text
}

// Start runs `serve` until the test ends, with only the given environment.
func Start(t testing.TB, env map[string]string) *Broker { return started(t, Launch(t, env, "serve")) }

// StartOn is Start on a host of a test's network.
func StartOn(t testing.TB, on *network.Host, env map[string]string) *Broker {
	b := started(t, startProcessOn(t, on, Command(t, env, "serve")))
	b.URL = strings.Replace(b.URL, "127.0.0.1", on.Addr.String(), 1)
	return b
}

// StartPrevious is Start with the broker of the previous release and its catalog.
func StartPrevious(t testing.TB, env map[string]string) *Broker {
	env = maps.Clone(env)
	env["CATALOG"] = PreviousCatalog(t)
	return started(t, StartProgram(t, env, previous(t), "serve"))
}

// started waits until a broker serves.
func started(t testing.TB, b *Broker) *Broker {
	line := b.AwaitLog(t, `"msg":"ready"`)
	var ready struct{ Address string }
	err := json.Unmarshal([]byte(line), &ready)
	require.NoError(t, err, "the ready line is not JSON: %s", line)
	_, port, err := net.SplitHostPort(ready.Address)
	require.NoError(t, err)
	b.URL = "http://127.0.0.1:" + port
	return b
}

// Launch runs the broker with any arguments and returns at once. It is stopped when the test ends.
func Launch(t testing.TB, env map[string]string, args ...string) *Broker {
	return StartProgram(t, env, append([]string{binaryFor(t, env)}, args...)...)
}

// StartProgram is Launch with any command line.
func StartProgram(t testing.TB, env map[string]string, args ...string) *Broker {
	return StartProcess(t, command(t, env, args...))
}

func command(t testing.TB, env map[string]string, args ...string) *exec.Cmd {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Env = t.TempDir(), Environ(env)
	return cmd
}

// StartCommand is Start with a command that the test has prepared.
func StartCommand(t testing.TB, cmd *exec.Cmd) *Broker { return started(t, StartProcess(t, cmd)) }

// StartProcess is StartProgram with a command that the test has prepared.
func StartProcess(t testing.TB, cmd *exec.Cmd) *Broker { return startProcessOn(t, nil, cmd) }

// startProcessOn is StartProcess on a host, nil for this one.
func startProcessOn(t testing.TB, on *network.Host, cmd *exec.Cmd) *Broker {
	b := &Broker{Username: Username, Password: Password, cmd: cmd, exited: make(chan struct{}), log: &logged.Text{}}
	b.cmd.Stdout, b.cmd.Stderr = b.log, b.log
	b.cmd.WaitDelay = time.Second // dedicated servers outlive the broker
	require.NoError(t, on.Do(cmd.Start))
	go func() {
		b.cmd.Wait()
		close(b.exited)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("output of %v:\n%s", cmd.Args, b.Log())
		}
		b.Signal(t, syscall.SIGTERM)
		b.Wait(t)
	})
	return b
}

func (b *Broker) PID() int { return b.cmd.Process.Pid }

// Runs reports whether the process has not ended.
func (b *Broker) Runs() bool {
	select {
	case <-b.exited:
		return false
	default:
		return true
	}
}

// Signal sends a signal; the process may have ended.
func (b *Broker) Signal(t testing.TB, s syscall.Signal) {
	if !b.Runs() {
		return
	}
	err := b.cmd.Process.Signal(s)
	assert.False(t, err != nil && err != os.ErrProcessDone, "signal the broker: %v", err)
}

// Wait waits for the process to end and returns its exit status, -1 if a signal ended it.
func (b *Broker) Wait(t testing.TB) int {
	t.Helper()
	select {
	case <-b.exited:
	case <-time.After(limits.Stuck):
		b.cmd.Process.Kill()
		t.Errorf("the broker did not end; it was killed. Its output:\n%s", b.Log())
		<-b.exited
	}
	return b.cmd.ProcessState.ExitCode()
}

// Kill ends the process as a crash would, and waits until it is gone.
func (b *Broker) Kill(t testing.TB) {
	b.Signal(t, syscall.SIGKILL)
	b.Wait(t)
}

// Log returns everything that the process has printed.
func (b *Broker) Log() string { return b.log.String() }

// AwaitLog waits for the first printed line that contains text, and returns it.
func (b *Broker) AwaitLog(t testing.TB, text string) (line string) {
	Eventually(t, fmt.Sprintf("a line with %q", text), func() bool {
		runs := b.Runs()
		before, after, found := strings.Cut(b.Log(), text)
		rest, _, whole := strings.Cut(after, "\n")
		line = before[strings.LastIndexByte(before, '\n')+1:] + text + rest
		require.True(t, found || runs, "the process ended before it printed %q; output:\n%s", text, b.Log())
		return found && (whole || !runs)
	})
	return line
}

package process_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// warnings is what a launcher will log beyond information.
func warnings(cfg *process.Config) *logged.Text {
	log := &logged.Text{}
	cfg.Logger = slog.New(slog.NewMultiHandler(cfg.Logger.Handler(),
		slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn})))
	return log
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	eachServer(t, "phoenix", func(t *testing.T, s server) {
		testdrive.Exec(t, s.db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")
		pid := s.pid(t)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		testdrive.Eventually(t, "the server answers again", func() bool {
			return !alive(pid) && s.db.PingContext(t.Context()) == nil
		})
		assert.EqualValues(t, 42, testdrive.Read[int64](t, s.db, "SELECT n FROM app.t"))
		s.l.Close()
		assert.Contains(t, s.log.String(), "started a server that did not run", "operators are not warned")
	})
}

// MySQL refuses to start while its socket's lock file names a living process.
func TestStopAllThenStartAll(t *testing.T) {
	eachServer(t, "sleeper", func(t *testing.T, s server) {
		testdrive.Exec(t, s.db, "CREATE DATABASE app")
		pid := s.pid(t)
		require.NoError(t, s.l.StopAll(t.Context()))
		assert.False(t, alive(pid), "the server still runs")
		lock := filepath.Join(s.dir, "data", "mysqld.sock.lock")
		require.NoError(t, os.WriteFile(lock, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600))

		s.cfg.Binary = servers.Renumbered(t, s.cfg.Binary) // somebody has replaced the program
		l := open(t, s.cfg)
		require.NoError(t, l.StartAll(t.Context()))
		testdrive.Exec(t, s.db, "USE app")
		l.Close()
		assert.Empty(t, s.log.String(), "operators are warned of what was asked for")
		state, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
		require.NoError(t, err)
		assert.Contains(t, string(state), `"version": "`+s.cfg.Binary.Version, "of the data")
	})
}

// A server that gives up as it starts has ended in order, but not as it was told to.
func TestServerThatGivesUpIsWarnedOf(t *testing.T) {
	eachServer(t, "homeless", func(t *testing.T, s server) {
		require.NoError(t, s.l.StopAll(t.Context()))
		stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(s.end.Port)))
		require.NoError(t, err)
		defer stranger.Close()
		open(t, s.cfg)
		testdrive.Eventually(t, "operators are warned", func() bool { return s.log.Count("did not run") > 0 })
	})
}

func TestStopAllKillsWhatStillRunsWhenItsContextEnds(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		var pids []int
		for i := range 5 { // one more than are stopped at once
			spec := newSpec("deaf" + strconv.Itoa(i))
			launch(t, l, spec)
			pid := pidOf(t, cfg, spec.ID)
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
			pids = append(pids, pid)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		assert.NoError(t, l.StopAll(ctx))
		for _, pid := range pids {
			testdrive.Eventually(t, "the server is reaped", func() bool { return !alive(pid) })
		}
	})
}

func TestServerThatDoesNotComeUpIsKilled(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		spec := newSpec("slow")
		l.SetStartTimeout(time.Millisecond)
		_, err := l.Launch(t.Context(), spec, ignore)
		require.ErrorContains(t, err, "in time")
		assert.Empty(t, testdrive.Processes(t, cfg.Dir), "still runs")
		l.SetStartTimeout(time.Minute)
		launch(t, l, spec)
		assert.Len(t, testdrive.Processes(t, cfg.Dir), 1)
	})
}

// A broker that was paused hears with its first report that another one has done its work, and maybe undone it.
func TestLaunchByAPausedBrokerLeavesNothing(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		ctx, lose := context.WithCancel(t.Context())
		spec := newSpec("late")
		_, err := l.Launch(ctx, spec, func(string) { lose() })
		assert.ErrorIs(t, err, context.Canceled, "launch: %v, want an error that says why it ended", err)
		assert.NoDirExists(t, filepath.Join(cfg.Dir, "instances", spec.ID))
	})
}

// A server keeps the host that it was launched with: applications were told it, and the certificate is for it. One
// directory may be named by several paths; a server is known by its own.
func TestServerOfAnotherConfiguration(t *testing.T) {
	eachServer(t, "settled", func(t *testing.T, s server) {
		s.l.Close()
		pid := s.pid(t)
		link := filepath.Join(t.TempDir(), "link")
		require.NoError(t, os.Symlink(s.cfg.Dir, link))
		s.cfg.Dir, s.cfg.Host = link, "localhost"
		l := open(t, s.cfg)
		found, err := l.Endpoint(t.Context(), s.spec.ID)
		require.NoError(t, err)
		assert.Equal(t, s.end.Host, found.Host)
		assert.Equal(t, s.end.Host, launch(t, l, s.spec).Host, "launched again")
		require.NoError(t, l.StopAll(t.Context()))
		testdrive.Eventually(t, "the server is reaped", func() bool { return !alive(pid) })
	})
}

// A launch must end the server of the one before it even while that is still being loaded, when the process table does
// not say yet what it is.
func TestLaunchWhileServerIsLoaded(t *testing.T) {
	const slowMysqld = `#!/bin/sh
while read -r pid; do
	! kill -0 "$pid" || echo "$pid runs beside $$" >>%[1]s.overlaps
done <%[1]s.pids
echo $$ >>%[1]s.pids
sleep 0.5
exec %[2]s "$@"
`
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		slow := filepath.Join(cfg.Dir, "slow-mysqld")
		require.NoError(t, servers.WriteProgram(slow, fmt.Appendf(nil, slowMysqld, slow, binary.Path)))
		for _, name := range []string{slow + ".pids", slow + ".overlaps"} {
			require.NoError(t, os.WriteFile(name, nil, 0o666))
			require.NoError(t, os.Chmod(name, 0o666)) // whatever the umask
		}
		cfg.Binary.Path = slow
		l := open(t, cfg)
		spec := newSpec("loaded")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.Launch(ctx, spec, func(progress string) {
			if progress == "Starting mysqld" {
				cancel()
			}
		})
		require.ErrorIs(t, err, context.Canceled, "cut off as it starts")
		launch(t, l, spec)
		overlaps, err := os.ReadFile(slow + ".overlaps")
		assert.True(t, err == nil && len(overlaps) == 0, "%s, %v", overlaps, err)
	})
}

// alive tells whether a process runs. One that has ended and is yet to be reaped does not, though it takes signals.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

package process_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/test/logged"
	"mysql-broker/test/servers"
)

// warnings is what a launcher will log beyond information.
func warnings(cfg *process.Config) *logged.Text {
	log := &logged.Text{}
	cfg.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	return log
}

func TestKilledServerIsStartedAgain(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		logged := warnings(&cfg)
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("phoenix")
		db := connect(t, spec, launch(t, l, spec))
		exec(t, db, "CREATE DATABASE app", "CREATE TABLE app.t (n INT)", "INSERT INTO app.t VALUES (42)")

		pid := pidOf(t, cfg, spec.ID)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server answers again", func() bool { return !alive(pid) && db.PingContext(t.Context()) == nil })
		if n := queryInt(t, db, "SELECT n FROM app.t"); n != 42 {
			t.Errorf("read %d, want 42", n)
		}
		if l.Close(); !strings.Contains(logged.String(), "started a server that did not run") {
			t.Errorf("operators are not warned: %s", logged)
		}
	})
}

func TestStopAllThenStartAll(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		logged := warnings(&cfg)
		l := open(t, cfg)
		spec := newSpec("sleeper")
		db := connect(t, spec, launch(t, l, spec))
		exec(t, db, "CREATE DATABASE app")
		pid := pidOf(t, cfg, spec.ID)
		if err := l.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if alive(pid) {
			t.Error("the server still runs")
		}

		l = open(t, cfg)
		defer l.Close()
		if err := l.StartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		exec(t, db, "USE app")
		if l.Close(); logged.String() != "" {
			t.Errorf("operators are warned of what was asked for: %s", logged)
		}
	})
}

// A server that gives up as it starts has ended in order, but not as it was told to.
func TestServerThatGivesUpIsWarnedOf(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		logged := warnings(&cfg)
		l := open(t, cfg)
		spec := newSpec("homeless")
		end := launch(t, l, spec)
		if err := l.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		stranger, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(end.Port)))
		if err != nil {
			t.Fatal(err)
		}
		defer stranger.Close()
		l = open(t, cfg)
		defer l.Close()
		eventually(t, "operators are warned", func() bool { return strings.Contains(logged.String(), "did not run") })
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
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := l.StopAll(ctx); err != nil {
			t.Error(err)
		}
		for _, pid := range pids {
			eventually(t, "the server is reaped", func() bool { return !alive(pid) })
		}
	})
}

func TestServerThatDoesNotComeUpIsKilled(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("slow")
		l.SetStartTimeout(time.Millisecond)
		if _, err := l.Launch(t.Context(), spec, ignore); err == nil || !strings.Contains(err.Error(), "in time") {
			t.Fatalf("launch: %v, want an error that says that it took too long", err)
		}
		if running := processesOf(t, cfg.Dir); len(running) != 0 {
			t.Errorf("still runs: %q", running)
		}
		l.SetStartTimeout(time.Minute)
		launch(t, l, spec)
		if running := processesOf(t, cfg.Dir); len(running) != 1 {
			t.Errorf("runs: %q, want one server", running)
		}
	})
}

// A broker that was paused hears with its first report that another one has done its work, and maybe undone it.
func TestLaunchByAPausedBrokerLeavesNothing(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		defer l.Close()
		ctx, lose := context.WithCancel(t.Context())
		spec := newSpec("late")
		if _, err := l.Launch(ctx, spec, func(string) { lose() }); !errors.Is(err, context.Canceled) {
			t.Errorf("launch: %v, want an error that says why it ended", err)
		}
		dir := filepath.Join(cfg.Dir, "instances", spec.ID)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory of the server: %v, want none", err)
		}
	})
}

// processesOf are the command lines, of whatever process, that name a directory.
func processesOf(t *testing.T, dir string) (found []string) {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		line, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(line), dir) { // else it has ended meanwhile
			found = append(found, string(line))
		}
	}
	return found
}

// Applications were told the host, and the certificate is for it.
func TestServersKeepTheHostTheyWereLaunchedWith(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		spec := newSpec("settled")
		before := launch(t, l, spec)
		l.Close()

		cfg.Host = "localhost"
		l = open(t, cfg)
		defer l.Close()
		for what, got := range map[string]launcher.Endpoint{
			"endpoint": endpoint(t, l, spec.ID), "launched again": launch(t, l, spec),
		} {
			if got.Host != before.Host {
				t.Errorf("%s: host %q, want %q", what, got.Host, before.Host)
			}
		}
	})
}

func endpoint(t *testing.T, l *process.Launcher, id string) launcher.Endpoint {
	t.Helper()
	end, err := l.Endpoint(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// One directory may be named by several paths; a server is known by its own.
func TestStateDirectoryBehindASymbolicLink(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		spec := newSpec("alias")
		launch(t, l, spec)
		l.Close()
		pid := pidOf(t, cfg, spec.ID)
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(cfg.Dir, link); err != nil {
			t.Fatal(err)
		}
		cfg.Dir = link
		l = open(t, cfg)
		if err := l.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the server is reaped", func() bool { return !alive(pid) })
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
		if err := servers.WriteProgram(slow, fmt.Appendf(nil, slowMysqld, slow, binary.Path)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{slow + ".pids", slow + ".overlaps"} {
			if err := os.WriteFile(name, nil, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(name, 0o666); err != nil { // whatever the umask
				t.Fatal(err)
			}
		}
		cfg.Binary.Path = slow
		l := open(t, cfg)
		defer l.Close()
		spec := newSpec("loaded")
		ctx, cancel := context.WithCancel(t.Context())
		_, err := l.Launch(ctx, spec, func(progress string) {
			if progress == "Starting mysqld" {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("cut off as it starts: %v, want context.Canceled", err)
		}
		launch(t, l, spec)
		if overlaps, err := os.ReadFile(slow + ".overlaps"); err != nil || len(overlaps) != 0 {
			t.Errorf("%s, %v", overlaps, err)
		}
	})
}

// MySQL refuses to start while its socket's lock file names a living process.
func TestStaleSocketLock(t *testing.T) {
	eachBinary(t, func(t *testing.T, binary mysqld.Binary) {
		cfg := newConfig(t, binary)
		l := open(t, cfg)
		spec := newSpec("stale")
		db := connect(t, spec, launch(t, l, spec))
		if err := l.StopAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		lock := filepath.Join(cfg.Dir, "instances", spec.ID, "data", "mysqld.sock.lock")
		if err := os.WriteFile(lock, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		l = open(t, cfg)
		defer l.Close()
		if err := l.StartAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.PingContext(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// alive tells whether a process runs. One that has ended and is yet to be reaped does not, though it takes signals.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !bytes.Contains(stat, []byte(") Z "))
}

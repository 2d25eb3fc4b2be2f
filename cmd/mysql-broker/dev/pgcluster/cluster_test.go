package pgcluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

func TestStartAfterPostmasterWasKilled(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t), Durable: true}
	c := start(t, cfg)
	execute(t, c, "CREATE TABLE kept AS SELECT 7 AS n")
	if err := c.server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	c.home.close()
	if n := query(t, start(t, cfg), "SELECT n FROM kept"); n != 7 {
		t.Errorf("n = %d after kill -9, want 7", n)
	}
}

// A process that dies without Stop leaves its server running. Only its lock is released.
func TestStartStopsServerOfDeadProcess(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	left := start(t, cfg)
	execute(t, left, "CREATE TABLE kept AS SELECT 7 AS n")
	left.home.close()
	cfg.Port = left.port
	if n := query(t, start(t, cfg), "SELECT n FROM kept"); n != 7 {
		t.Errorf("n = %d, want 7", n)
	}
	select {
	case <-left.Done():
	default:
		t.Error("the old server still runs")
	}
}

// Containers have root without CAP_SYS_PTRACE, which may not know another user's processes by their working directory.
func TestLeftoverIsFoundWithoutPtrace(t *testing.T) {
	t.Parallel()
	left := start(t, Config{Dir: reachableDir(t)})
	dropPtrace(t)
	if !runs(t, left) {
		t.Error("the server that runs is not found")
	}
}

// Children of a killed postmaster, which run for a moment longer, are recognized by their shared memory.
func TestLeftoverChildrenAreFound(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Dir: reachableDir(t)})
	if held, err := sharedMemoryAttached(c.home.dataDir()); err != nil || !held {
		t.Errorf("while it runs: %v, %v", held, err)
	}
	if err := c.server.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-c.Done()
	if err := stopLeftover(t.Context(), c.home.dataDir(), c.log); err != nil {
		t.Fatal(err)
	}
	if runs(t, c) {
		t.Error("its children run on")
	}
}

func TestStartIgnoresStrangerWithPostmastersOldPID(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	c := start(t, cfg)
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	stranger := c.home.command(t.Context(), "postgres") // for its user; PostgreSQL looks no further
	stranger.Path, stranger.Args = "/bin/sleep", []string{"sleep", "600"}
	stranger.Dir = c.home.dataDir() // as a shell may be
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = stranger.Wait()
		close(ended)
	}()
	defer func() {
		_ = stranger.Process.Kill()
		<-ended
	}()
	pidFile := fmt.Sprintf("%d\n%s\n1\n%d\n\n127.0.0.1\n\nready\n", stranger.Process.Pid, c.home.dataDir(), c.port)
	if err := os.WriteFile(filepath.Join(c.home.dataDir(), "postmaster.pid"), []byte(pidFile), 0o644); err != nil {
		t.Fatal(err)
	}
	start(t, cfg)
	select {
	case <-ended:
		t.Error("the stranger was ended")
	default:
	}
}

func TestSecondStartOfLivingClusterFails(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	c := start(t, cfg)
	_, err := Start(t.Context(), cfg)
	if err == nil || !strings.Contains(err.Error(), "another process runs it") {
		t.Errorf("err = %v", err)
	}
	query(t, c, "SELECT 1")
}

func TestStartReportsServersReason(t *testing.T) {
	t.Parallel()
	taken := start(t, Config{Dir: reachableDir(t)})
	_, err := Start(t.Context(), Config{Dir: reachableDir(t), Port: taken.port})
	if err == nil || !strings.Contains(err.Error(), "Address already in use") {
		t.Errorf("err = %v, want the server's own reason", err)
	}
}

func TestPasswordIsSecretAndAskedFor(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Dir: reachableDir(t)})
	info, err := os.Stat(c.home.passwordFile())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("password file's mode = %v", info.Mode())
	}
	wrong := strings.Replace(c.URL(), c.password, "wrong", 1)
	if _, err := pgx.Connect(t.Context(), wrong); err == nil {
		t.Error("a wrong password was accepted")
	}
}

func start(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := c.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return c
}

// reachableDir returns a temporary directory that the server's user can enter. Only root can enter t.TempDir's parent.
func reachableDir(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts PostgreSQL, which -short leaves out")
	}
	dir, err := os.MkdirTemp("", "pgcluster-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runs reports whether a process of the cluster's server runs.
func runs(t *testing.T, c *Cluster) bool {
	t.Helper()
	info, err := os.Stat(c.home.dataDir())
	if err != nil {
		t.Fatal(err)
	}
	used, err := inUse(info, c.home.dataDir())
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// dropPtrace takes CAP_SYS_PTRACE from the test's thread, which ends with the test.
func dropPtrace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		t.Fatal(err)
	}
	sets[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	if err := unix.Capset(&header, &sets[0]); err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, c *Cluster, sql string) {
	t.Helper()
	conn := connect(t, c)
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func query(t *testing.T, c *Cluster, sql string) (n int) {
	t.Helper()
	if err := connect(t, c).QueryRow(t.Context(), sql).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func connect(t *testing.T, c *Cluster) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

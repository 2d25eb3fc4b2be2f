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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestStartAfterPostmasterWasKilled(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t), Durable: true}
	c := start(t, cfg)
	execute(t, c, "CREATE TABLE kept AS SELECT 7 AS n")
	require.NoError(t, c.server.cmd.Process.Kill())
	<-c.Done()
	c.home.close()
	n := query(t, start(t, cfg), "SELECT n FROM kept")
	assert.Equal(t, 7, n, "n = %d after kill -9", n)
}

// A process that dies without Stop leaves its server running. Only its lock is released.
func TestStartStopsServerOfDeadProcess(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	left := start(t, cfg)
	execute(t, left, "CREATE TABLE kept AS SELECT 7 AS n")
	left.home.close()
	cfg.Port = left.port
	assert.Equal(t, 7, query(t, start(t, cfg), "SELECT n FROM kept"), "n =")
	select {
	case <-left.Done():
	default:
		t.Error("the old server still runs")
	}
}

// Children of a killed postmaster, which run for a moment longer, are recognized by their shared memory.
func TestLeftoverChildrenAreFound(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Dir: reachableDir(t)})
	held, err := sharedMemoryAttached(c.home.dataDir())
	assert.True(t, err == nil && held, "while it runs: %v, %v", held, err)
	require.NoError(t, c.server.cmd.Process.Kill())
	<-c.Done()
	require.NoError(t, stopLeftover(t.Context(), c.home.dataDir(), c.log))
	assert.False(t, runs(t, c), "its children run on")
}

func TestStartIgnoresStrangerWithPostmastersOldPID(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	c := start(t, cfg)
	require.NoError(t, c.Stop(t.Context()))
	stranger := c.home.command(t.Context(), "postgres") // for its user; PostgreSQL looks no further
	stranger.Path, stranger.Args = "/bin/sleep", []string{"sleep", "600"}
	stranger.Dir = c.home.dataDir() // as a shell may be
	require.NoError(t, stranger.Start())
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
	require.NoError(t, os.WriteFile(filepath.Join(c.home.dataDir(), "postmaster.pid"), []byte(pidFile), 0o644))
	start(t, cfg)
	select {
	case <-ended:
		t.Error("the stranger was ended")
	default:
	}
}

// While a cluster runs, its directory and its port are taken, and only its password opens it. Containers have root without
// CAP_SYS_PTRACE, which may not know another user's processes by their working directory.
func TestRunningCluster(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	c := start(t, cfg)
	_, err := Start(t.Context(), cfg)
	assert.ErrorContains(t, err, "another process runs it")
	_, err = Start(t.Context(), Config{Dir: reachableDir(t), Port: c.port})
	assert.ErrorContains(t, err, "Address already in use", "not the server's own reason")
	info, err := os.Stat(c.home.passwordFile())
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	_, err = pgx.Connect(t.Context(), strings.Replace(c.URL(), c.password, "wrong", 1))
	assert.Error(t, err, "a wrong password was accepted")
	query(t, c, "SELECT 1")
	dropPtrace(t)
	assert.True(t, runs(t, c), "the server that runs is not found")
}

func start(t *testing.T, cfg Config) *Cluster {
	c, err := Start(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, c.Stop(ctx))
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
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// runs reports whether a process of the cluster's server runs.
func runs(t *testing.T, c *Cluster) bool {
	info, err := os.Stat(c.home.dataDir())
	require.NoError(t, err)
	used, err := inUse(info, c.home.dataDir())
	require.NoError(t, err)
	return used
}

// dropPtrace takes CAP_SYS_PTRACE from the test's thread, which ends with the test.
func dropPtrace(t *testing.T) {
	runtime.LockOSThread()
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	require.NoError(t, unix.Capget(&header, &sets[0]))
	sets[0].Effective &^= 1 << unix.CAP_SYS_PTRACE
	require.NoError(t, unix.Capset(&header, &sets[0]))
}

func execute(t *testing.T, c *Cluster, sql string) {
	conn := connect(t, c)
	_, err := conn.Exec(t.Context(), sql)
	require.NoError(t, err)
}

func query(t *testing.T, c *Cluster, sql string) (n int) {
	require.NoError(t, connect(t, c).QueryRow(t.Context(), sql).Scan(&n))
	return n
}

func connect(t *testing.T, c *Cluster) *pgx.Conn {
	conn, err := pgx.Connect(t.Context(), c.URL())
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

package pgcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

// A process that dies without Stop takes its server with it. The next one waits for that.
func TestServerOfDeadProcess(t *testing.T) {
	t.Parallel()
	const variable = "PGCLUSTER_DIR"
	if dir := os.Getenv(variable); dir != "" {
		c, err := Start(t.Context(), Config{Dir: dir})
		require.NoError(t, err)
		execute(t, c, "CREATE TABLE kept AS SELECT 7 AS n")
		fmt.Println(c.port, c.server.cmd.Process.Pid)
		<-c.Done()
		return
	}
	cfg := Config{Dir: reachableDir(t)}
	dies := exec.Command(os.Args[0], "-test.run=^TestServerOfDeadProcess$")
	dies.Env = append(os.Environ(), variable+"="+cfg.Dir)
	out, err := dies.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, dies.Start())
	var left int
	_, err = fmt.Fscanln(out, &cfg.Port, &left)
	require.NoError(t, errors.Join(err, syscall.Kill(left, syscall.SIGSTOP), dies.Process.Kill()))
	_ = dies.Wait() // it was killed
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = Start(ctx, cfg)
	assert.ErrorContains(t, err, "wait for the lock", "while the server is there")
	require.NoError(t, syscall.Kill(left, syscall.SIGCONT))
	assert.Equal(t, 7, query(t, start(t, cfg), "SELECT n FROM kept"), "n =")
}

func TestStartIgnoresStrangerWithPostmastersOldPID(t *testing.T) {
	t.Parallel()
	cfg := Config{Dir: reachableDir(t)}
	c := start(t, cfg)
	require.NoError(t, c.Stop(t.Context()))
	stranger := c.home.command(t.Context(), "postgres") // for its user
	stranger.Path, stranger.Args = "/bin/sleep", []string{"sleep", "600"}
	require.NoError(t, stranger.Start())
	defer func() {
		_ = stranger.Process.Kill()
		_ = stranger.Wait()
	}()
	pidFile := fmt.Sprintf("%d\n%s\n1\n%d\n\n127.0.0.1\n\nready\n", stranger.Process.Pid, c.home.dataDir(), c.port)
	require.NoError(t, os.WriteFile(filepath.Join(c.home.dataDir(), "postmaster.pid"), []byte(pidFile), 0o644))
	start(t, cfg)
}

// While a cluster runs, its directory and its port are taken, and only its password opens it.
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

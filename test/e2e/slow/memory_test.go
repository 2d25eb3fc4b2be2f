package slow

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestMemory runs a broker in a control group with the memory that manifest.yml and deploy/kubernetes ask for: it takes
// three backups at the same time, clones an instance with long rows, and refuses one with long programs. The kernel kills
// nothing, and the broker answers health checks within the time that the manifest allows.
func TestMemory(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		const megabytes = 256
		for file, line := range map[string]string{"manifest.yml": `memory: (\d+)M`,
			"deploy/kubernetes/base/deployment.yaml": `limits:\n +memory: (\d+)Mi`} {
			found := regexp.MustCompile(line).FindStringSubmatch(testdrive.Shipped(t, file))
			assert.True(t, found != nil && found[1] == strconv.Itoa(megabytes),
				"%s asks for another size than is tested: %q", file, found)
		}
		g := newGroup(t, megabytes<<20)
		env := testdrive.Environment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		env["CATALOG"] = testdrive.EditedCatalog(t, func(text string) string {
			return strings.ReplaceAll(text, "max_storage_mb: 100,", "max_storage_mb: 1024,")
		})
		p := testdrive.StartPlatformBy(t, g.start, s, env)
		assert.Contains(t, p.Log(), `"memory_mb":230`, "the broker has not found its limit")
		fill := func(rows, bytes int) testdrive.Instance {
			i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
			_, c := i.Bound(t, nil)
			db := c.Open(t)
			testdrive.Exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling LONGBLOB)")
			filling := make([]byte, bytes)
			for range rows {
				_, _ = rand.Read(filling) // never fails
				_, err := db.ExecContext(t.Context(), "INSERT INTO large (filling) VALUES (?)", filling)
				require.NoError(t, err)
			}
			return i
		}
		long := fill(20, 15e6)
		all := []testdrive.Instance{fill(145, 1<<20), fill(145, 1<<20), fill(145, 1<<20)}
		programs := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := programs.Bound(t, body{"parameters": body{"role": "admin"}})
		db := c.Open(t)
		for n := range 3 {
			testdrive.Exec(t, db, fmt.Sprintf("CREATE PROCEDURE p%d() SELECT '%s'", n, strings.Repeat("x", 3e6)))
		}
		failed := watchHealth(t, p)
		var operations []string
		for _, i := range all {
			operations = append(operations, i.BackUp(t).Operation(t))
		}
		for n, i := range all {
			i.Await(t, operations[n])
		}
		long.Await(t, long.BackUp(t).Operation(t))
		programs.AwaitFailure(t, programs.BackUp(t).Operation(t), "The definitions of the tables, views, routines")
		for _, from := range []string{"clone_from", "restore_from"} {
			made := p.OwnInstance(t, "shared-small")
			made.Await(t, made.Provision(t, testdrive.Async, body{"context": testdrive.CloudFoundry,
				"parameters": body{from: long.ID}}).Operation(t))
			made.Remove(t)
		}
		n := failed()
		assert.False(t, n > 0 || g.kills(t) > 0, "%d health checks failed, and the kernel killed %d times", n, g.kills(t))
	})
}

// watchHealth returns a function that says how many health checks have failed meanwhile.
func watchHealth(t *testing.T, p testdrive.Platform) (failed func() int) {
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan int)
	client := &http.Client{Timeout: 10 * time.Second}
	go func() {
		failed := 0
		for ; ctx.Err() == nil; time.Sleep(200 * time.Millisecond) {
			r, err := client.Get(p.URL + "/healthz")
			if err != nil || r.StatusCode != http.StatusOK {
				failed++
			}
			if err == nil {
				r.Body.Close()
			}
		}
		result <- failed
	}()
	return func() int {
		cancel()
		return <-result
	}
}

// group is a control group that limits memory.
type group struct{ dir, limit, events string }

func newGroup(t *testing.T, bytes int) group {
	t.Helper()
	name := "mysql-broker-test-" + strconv.Itoa(os.Getpid())
	g := group{"/sys/fs/cgroup/memory/" + name, "memory.limit_in_bytes", "memory.oom_control"}
	if _, err := os.Stat("/sys/fs/cgroup/memory"); err != nil {
		g = group{"/sys/fs/cgroup/" + name, "memory.max", "memory.events"}
	}
	err := os.Mkdir(g.dir, 0o755)
	if err == nil {
		t.Cleanup(func() { assert.NoError(t, os.Remove(g.dir)) })
		err = os.WriteFile(filepath.Join(g.dir, g.limit), []byte(strconv.Itoa(bytes)), 0o600)
	}
	if err != nil {
		t.Skip("no control group can limit memory here:", err)
	}
	return g
}

func (g group) start(t testing.TB, env map[string]string) *testdrive.Broker {
	cmd := exec.Command("/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(g.dir, "cgroup.procs"),
		testdrive.Binary(t), "serve")
	cmd.Dir = t.TempDir()
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return testdrive.StartCommand(t, cmd)
}

// kills is how many processes the kernel has killed.
func (g group) kills(t *testing.T) int {
	text, err := os.ReadFile(filepath.Join(g.dir, g.events))
	require.NoError(t, err)
	found := regexp.MustCompile(`(?m)^oom_kill (\d+)$`).FindSubmatch(text)
	require.NotNil(t, found, "%s: %s", g.events, text)
	n, _ := strconv.Atoi(string(found[1]))
	return n
}

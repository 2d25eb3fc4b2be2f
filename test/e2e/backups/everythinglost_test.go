package backups

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestEverythingLost follows docs/runbook.md, section "Everything is lost": PostgreSQL, the shared server and a
// dedicated server are gone. There are only a bucket and the keyset, once with a dump of PostgreSQL and once without.
func TestEverythingLost(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	server := testdrive.Private(t, s.Flavour)
	service := s3.Start(t)
	env := testdrive.Environment(t, server)
	service.Configure(env)
	p := testdrive.StartPlatform(t, server, env)
	var all []*lostInstance
	for _, plan := range []string{"shared-small", "dedicated-small"} {
		i := &lostInstance{Instance: p.MakeOwn(t, plan)}
		i.binding, i.c = i.Bound(t, nil)
		testdrive.MakeObjectsAs(t, i.c)
		all = append(all, i)
	}
	dump := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	for _, i := range all { // after the dump
		testdrive.Exec(t, i.c.Open(t), "CREATE TABLE orders (id INT PRIMARY KEY)", "INSERT INTO orders VALUES (4711)")
		i.was, i.backup = testdrive.Contents(t, i.c), i.BackedUp(t)
		testdrive.Exec(t, i.c.Open(t), "INSERT INTO orders VALUES (4712)") // what the RPO is about
	}
	p.Kill(t)
	loseServers(t, env["LAUNCHER_DIR"])
	fresh := testdrive.Private(t, s.Flavour)
	env["MYSQL_SERVERS"] = testdrive.Environment(t, fresh)["MYSQL_SERVERS"]

	// With the dump.
	testdrive.RestorePostgres(t, env["DATABASE_URL"], dump)
	p = testdrive.StartPlatform(t, fresh, env)
	testdrive.ExpectHeld(t, p, "loaded from a dump")
	shown := testdrive.RunRecover(t, env, 0, "--apply")
	assert.False(t, strings.Contains(shown, "forget "), "recover forgets instances that are lost")
	d := p.Desk(t, env, nil)
	assert.Equal(t, "Backups imported: 2.\n", d.Run(t, 0, "backups", "import").Stdout, "import")
	restore := func(want, why string, args ...string) {
		operation, _, _ := strings.Cut(d.Run(t, 0, append([]string{"backups", "restore", "--yes"}, args...)...).Stdout, " ")
		d.ExpectEnd(t, operation, want, why)
	}
	for _, i := range all {
		i.Instance = i.Via(p)
		i.binding.Instance = i.Instance
		if i == all[0] {
			restore("failed", "is lost", i.backup, i.ID)
		}
		restore("succeeded", "", "--lost", d.IDs(t, "backup", "backups", i.ID)[0], i.ID)
		again := p.Credentials(t, i.binding.Fetch(t).Expect(t, http.StatusOK))
		assert.True(t, again.Username == i.c.Username && again.Password == i.c.Password && again.Database == i.c.Database,
			"the binding has other credentials: %s in %s", again.Username, again.Database)
		testdrive.ExpectContents(t, i.ID, again, i.was)
		testdrive.Exec(t, again.Open(t), "CALL add_item()")
		present := testdrive.Contents(t, again)
		restore("failed", "is not lost", "--lost", i.backup, i.ID)
		testdrive.ExpectContents(t, i.ID, again, present)
	}
	awaitHealthy(t, env)

	// Without it: a new PostgreSQL, which knows nothing.
	p.Kill(t)
	loseServers(t, env["LAUNCHER_DIR"])
	last := testdrive.Private(t, s.Flavour)
	empty := testdrive.Environment(t, last)
	env["DATABASE_URL"], env["MYSQL_SERVERS"] = empty["DATABASE_URL"], empty["MYSQL_SERVERS"]
	p = testdrive.StartPlatform(t, last, env)
	p.Operator(env).Run(t, 0, "backups", "import")
	for n, i := range all {
		i.Instance = i.Via(p)
		i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
		plan := []string{"shared-small", "dedicated-small"}[n]
		restored := p.NewInstance(t, plan)
		restored.Await(t, restored.Restored(t, i.backup, nil).Operation(t))
		_, c := restored.Bound(t, nil)
		testdrive.ExpectContents(t, i.ID+" in a new PostgreSQL", c, i.was)
	}
}

// lostInstance is an instance, with the data of its last backup.
type lostInstance struct {
	testdrive.Instance
	binding testdrive.Binding
	c       testdrive.Credentials
	backup  string
	was     []string
}

// loseServers kills the dedicated servers and removes all their files, as a host that burns down does.
func loseServers(t *testing.T, dir string) {
	for range 2 { // what supervises a server may have started it again
		for pid := range testdrive.Processes(t, dir) {
			err := syscall.Kill(pid, syscall.SIGKILL)
			require.False(t, err != nil && err != syscall.ESRCH, "%v", err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, path := range slices.Backward(left) {
		require.NoError(t, os.RemoveAll(path))
	}
}

// A database is gone: a tenant has dropped it, or its server has lost it. A restore in place brings it back, for the
// bindings that there are. Before it there is nothing to back up, and one that fails after it has restored data leaves
// none, so that it can be repeated.
func TestFaultRestoreOfALostDatabase(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		service := s3.Start(t)
		d, i, c, _ := testdrive.Interrupted(t, testdrive.Private(t, s.Flavour), func(env map[string]string) {
			service.Configure(env)
			env["QUOTA_INTERVAL"] = "1h" // the guard would give privileges that a restore has not
		})
		was, id := testdrive.Contents(t, c), i.BackedUp(t)
		for _, loss := range []struct {
			name, advice string
			frozen       bool // by a restore that failed before
			restore      func() (operation string)
		}{
			{"dropped by a tenant", "gets its earlier data back", false, func() string {
				return i.RestoreBackup(t, id, "db").Operation(t)
			}},
			{"lost with its server", "What was restored is dropped", true, func() string {
				operation, _, _ := strings.Cut(d.Run(t, 0, "backups", "restore", "--yes", "--lost", id, i.ID).Stdout, " ")
				return operation
			}},
		} {
			testdrive.Exec(t, d.AdminDB, "DROP DATABASE "+c.Database)
			expectDropped := func(when string) {
				r := i.NewBinding().Bind(t, nil)
				assert.False(t, r.Status < 400 || !strings.Contains(r.String("description"), "somebody has dropped it"),
					"%s %s, a bind: %d, %q", loss.name, when, r.Status, r.String("description"))
			}
			expectDropped("at first")
			reached, release := testdrive.HoldAt(t, d.Faults, "restore: end owner: begins")
			operation := loss.restore()
			testdrive.Receive(t, reached, "the data is restored")
			d.Run(t, 0, "tasks", "cancel", operation)
			release()
			d.ExpectEnd(t, operation, "failed", loss.advice)
			expectDropped("after a restore that was cancelled")
			if loss.frozen {
				d.Tasks.Exec(t, "UPDATE instance SET frozen_since = now() WHERE id = $1", i.ID)
			}
			state, says := d.Ended(t, loss.restore())
			require.True(t, state == "succeeded" && !strings.Contains(says, "there before"),
				"%s, the restore %s: %s", loss.name, state, says)
			testdrive.Exec(t, c.Open(t), "CREATE TABLE written (id INT)", "DROP TABLE written")
			testdrive.ExpectContents(t, i.ID, c, was)
		}
		backups := strings.Count(d.Run(t, 0, "backups", i.ID).Stdout, "b_")
		assert.Equal(t, 1, backups, "there are %d backups", backups)
		i.Bound(t, nil)
	})
}

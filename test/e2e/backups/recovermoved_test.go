package backups

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// PostgreSQL is put back as it was after a move, and as it was before: each time, applications use the data where they
// are, with the accounts that they have.
func TestRecoverMoved(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.OwnInstance(t, "shared-small")
	i.Create(t, nil, http.StatusCreated)
	b, app := i.Bound(t, nil)
	testdrive.Exec(t, app.Open(t), "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	testdrive.StopBroker(t, p) // the servers get their lists
	before := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	p = testdrive.StartPlatform(t, s, env)
	i, b = i.Via(p), testdrive.Binding{Instance: i.Via(p), BindingID: b.BindingID}
	i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").String("operation"))
	moved := i.Credentials(t, b.Fetch(t))
	testdrive.Exec(t, moved.Open(t), "INSERT INTO t VALUES (2)")
	after := testdrive.DumpPostgres(t, env["DATABASE_URL"])

	for _, restored := range []struct{ name, backup string }{{"before", before}, {"after", after}} {
		name := restored.name
		p.Kill(t) // so that nothing was recorded beside the servers after the move
		testdrive.RestorePostgres(t, env["DATABASE_URL"], restored.backup)
		p = testdrive.StartPlatform(t, s, env)
		testdrive.ExpectHeld(t, p, "loaded from a dump")
		shown := testdrive.RunRecover(t, env, 0)
		adopts := strings.Contains(shown, "place")
		assert.False(t, adopts != (name == "before") || strings.Contains(shown, "shut") || strings.Contains(shown, "forget"),
			"after the dump of %s the move:\n%s", name, shown)
		testdrive.RunRecover(t, env, 0, "--apply")
		again := testdrive.Binding{Instance: i.Via(p), BindingID: b.BindingID}
		c := again.Credentials(t, again.Fetch(t))
		assert.True(t, c.Port == moved.Port && c.Username == app.Username,
			"after the dump of %s the move, the binding has %s:%d, want %d", name, c.Username, c.Port, moved.Port)
		testdrive.Exec(t, c.Open(t), "INSERT INTO t SELECT MAX(id) + 1 FROM t")
		expectHealthy(t, env)
	}
}

// An instance is moved to another server and back, and PostgreSQL is put back as it was in between, and as it was before
// all that. Applications use the data where it was moved last. If that server is left out, nobody writes to the other one.
func TestRecoverMovedBack(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	list, err := json.Marshal([]map[string]any{testdrive.Described("old", testdrive.Private(t, s.Flavour)),
		testdrive.Described("new", testdrive.Private(t, s.Flavour))})
	require.NoError(t, err)
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(list), "none"
	p := testdrive.StartPlatform(t, s, env)
	o := p.Operator(env)
	o.Run(t, 0, "drain", "new")
	i := p.OwnInstance(t, "shared-small")
	i.Create(t, nil, http.StatusCreated)
	first, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
	o.Run(t, 0, "drain", "--undo", "new")
	never := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	move := func(to string) {
		t.Helper()
		testdrive.Eventually(t, limits.Stuck, "the former place is removed", func() bool {
			return testdrive.Run(t, env, "move", i.ID, to).Status == 0
		})
		desk := p.Desk(t, env, nil)
		state, says := desk.Ended(t, desk.Latest(t, i))
		require.Equal(t, "succeeded", state, "the move to %s %s: %s", to, state, says)
	}
	move("new")
	second, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "INSERT INTO t VALUES (2)")
	once := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	first.Unbind(t).Expect(t, http.StatusOK)
	move("old")
	c = i.Credentials(t, second.Fetch(t))
	testdrive.Exec(t, c.Open(t), "INSERT INTO t VALUES (3)")

	for n, restored := range []struct{ name, backup, adopts string }{{"once", once, "adopt +place "},
		{"never", never, "adopt +former place "}} {
		p.Kill(t)
		testdrive.RestorePostgres(t, env["DATABASE_URL"], restored.backup)
		p = testdrive.StartPlatform(t, s, env)
		i = i.Via(p)
		if restored.name == "once" {
			shown := testdrive.RunRecover(t, env, 0, "--without", "old")
			assert.True(t, strings.Contains(shown, "freeze") && !strings.Contains(shown, "settle"),
				"without the server that has the data:\n%s", shown)
		}
		if shown := testdrive.RunRecover(t, env, 0, "--apply"); !regexp.MustCompile(restored.adopts).MatchString(shown) ||
			regexp.MustCompile("freeze|forget +instance").MatchString(shown) {
			t.Errorf("moved %s before the backup:\n%s", restored.name, shown)
		}
		_, now := i.Bound(t, nil)
		assert.Equal(t, c.Port, now.Port, "moved %s before the backup, the data is at port", restored.name)
		testdrive.Exec(t, now.Open(t), "INSERT INTO t SELECT MAX(id) + 1 FROM t")
		assert.Len(t, testdrive.ReadAll(t, now.Open(t), "SELECT id FROM t"), 4+n,
			"moved %s before the backup, the rows", restored.name)
		expectHealthy(t, env)
	}
}

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestEvacuate moves the instances of a shared server to another one, and copies one to a server of the other flavour.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		list := []map[string]any{described("old", s), described("new", testdrive.Private(t, s.Flavour)), described("twin", s)}
		all := servers.AllMySQL(t)
		other := slices.IndexFunc(all, func(o servers.MySQL) bool { return o.Flavour != s.Flavour })
		if other >= 0 {
			list = append(list, described("other", all[other]))
		}
		text, err := json.Marshal(list)
		if err != nil {
			t.Fatal(err)
		}
		env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
		p := startPlatform(t, s, env)
		o := p.operator(env)
		o.run(t, 0, "drain", "new")
		o.run(t, 0, "drain", "twin")
		if other >= 0 {
			o.run(t, 0, "drain", "other")
		}
		i := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		b, c := i.bound(t, nil)
		makeObjectsAs(t, c)
		exec(t, c.open(t), "CREATE TABLE written AS SELECT 1 AS id")
		if r := o.run(t, 1, "move", i.id, "new"); !strings.Contains(r.Stderr, "full or drained") {
			t.Errorf("a move to a drained server: %s", r.Stderr)
		}
		o.run(t, 0, "drain", "--undo", "twin")
		if r := o.run(t, 1, "move", i.id, "twin"); !strings.Contains(r.Stderr, "same server") {
			t.Errorf("a move to the same server under another name: %s", r.Stderr)
		}
		o.run(t, 0, "drain", "--undo", "new")
		if r := o.run(t, 0, "drain", "--evacuate", "old"); !strings.Contains(r.Stdout, i.id+" is on new.") {
			t.Errorf("the evacuation printed %q", r.Stdout)
		}
		moved := p.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		if moved.Port == c.Port {
			t.Error("the binding has the old address")
		}
		expectSame(t, c, moved)
		exec(t, moved.open(t), "CALL add_item()")
		if got := o.ids(t, "id", "instances", "--server", "old"); len(got) != 0 {
			t.Errorf("on the evacuated server: %q", got)
		}
		if other < 0 { // as in EachMySQL, what is not installed is not tested
			return
		}
		o.run(t, 0, "drain", "--undo", "other")
		for _, name := range []string{"new", "twin"} {
			o.run(t, 0, "drain", name)
		}
		exec(t, moved.open(t), map[string]string{"mysql": "CREATE TABLE j (id INT PRIMARY KEY, j JSON)",
			"mariadb": "CREATE TABLE j (id UUID PRIMARY KEY)"}[s.Flavour])
		copied := p.ownInstance(t, "shared-small")
		state, shown := copied.AwaitOperation(t, copied.id, copied.clone(t, i.id, nil).Expect(t, http.StatusAccepted).
			String("operation"))
		if says := shown[len(shown)-1]; state != "failed" || !strings.Contains(says, "table j: the type") ||
			!strings.Contains(says, `"allow_lossy": true`) {
			t.Errorf("the copy into the other flavour %s: %s", state, says)
		}
		copied.remove(t)
		copied = p.ownInstance(t, "shared-small")
		copied.await(t, copied.clone(t, i.id, body{"parameters": body{"clone_from": i.id, "allow_lossy": true}}).
			Expect(t, http.StatusAccepted).String("operation"))
		_, there := copied.bound(t, nil)
		if got := readAll(t, there.open(t), "SELECT name FROM names ORDER BY name"); !slices.Equal(got,
			readAll(t, moved.open(t), "SELECT name FROM names ORDER BY name")) || len(got) == 0 {
			t.Errorf("the copy has %q", got)
		}
		exec(t, there.open(t), "CALL add_item()")
		copied.remove(t)
	})
}

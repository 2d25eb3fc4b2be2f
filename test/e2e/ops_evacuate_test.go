package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestEvacuate moves the instances of a shared server to another one.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		text, err := json.Marshal([]map[string]any{described("old", s), described("new", testdrive.Private(t, s.Flavour)),
			described("twin", s)})
		if err != nil {
			t.Fatal(err)
		}
		env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
		p := startPlatform(t, s, env)
		o := p.operator(env)
		o.run(t, 0, "drain", "new")
		o.run(t, 0, "drain", "twin")
		i := p.provisioned(t, "shared-small", nil)
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
	})
}

package e2e

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// expectFormer expects that an instance is shown with its former place, on the server "old".
func expectFormer(t *testing.T, o operator, id string) {
	t.Helper()
	var shown struct {
		Moved    time.Time `json:"moved_at"`
		Server   string    `json:"former_server"`
		Until    time.Time `json:"former_until"`
		Bindings int       `json:"bindings_to_renew"`
	}
	o.read(t, &shown, "instances", id)
	if shown.Server != "old" || shown.Until.Sub(shown.Moved) != 24*time.Hour || shown.Bindings != 1 {
		t.Errorf("the former place is shown as %+v", shown)
	}
	want := "old, until " + shown.Until.Format(time.RFC3339) + "; bindings to renew: 1\n"
	if out := o.run(t, 0, "instances", id).Stdout; !strings.Contains(out, want) {
		t.Errorf("instances printed %q", out)
	}
}

// TestEvacuate moves the instances of a shared server to another one, and copies one to a server of the other flavour.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
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
		o.refuse(t, "kept for bindings that are older than the move: 1", "move", i.id, "old")
		expectFormer(t, o, i.id)
		b.unbind(t).Expect(t, http.StatusOK)
		o.run(t, 0, "drain", "--undo", "old")
		testdrive.Eventually(t, testdrive.Patience, "the instance is moved back once its former place is removed", func() bool {
			r := testdrive.Run(t, env, "move", i.id, "old")
			if r.Status != 0 && !strings.Contains(r.Stderr, "is being removed") {
				t.Fatalf("the move back: %s", r.Stderr)
			}
			return r.Status == 0
		})
		if state, _ := (desk{p, o, nil, openTasks(t, env), nil}).ended(t, o.ids(t, "task", "tasks", "--instance", i.id,
			"--limit", "1")[0]); state != "succeeded" {
			t.Errorf("the move back %s", state)
		}
		_, moved = i.bound(t, nil)
		if other < 0 { // as in EachMySQL, what is not installed is not tested
			return
		}
		o.run(t, 0, "drain", "--undo", "other")
		for _, name := range []string{"old", "new", "twin"} {
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

package operators

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// expectFormer expects that an instance is shown with its former place, on the server "old".
func expectFormer(t *testing.T, o testdrive.Operator, id string) {
	t.Helper()
	var shown struct {
		Moved    time.Time `json:"moved_at"`
		Server   string    `json:"former_server"`
		Until    time.Time `json:"former_until"`
		Bindings int       `json:"bindings_to_renew"`
	}
	o.Read(t, &shown, "instances", id)
	if shown.Server != "old" || shown.Until.Sub(shown.Moved) != 24*time.Hour || shown.Bindings != 1 {
		t.Errorf("the former place is shown as %+v", shown)
	}
	want := "old, until " + shown.Until.Format(time.RFC3339) + "; bindings to renew: 1\n"
	if out := o.Run(t, 0, "instances", id).Stdout; !strings.Contains(out, want) {
		t.Errorf("instances printed %q", out)
	}
}

// TestEvacuate moves the instances of a shared server to another one. A server of the other flavour takes no copy.
func TestEvacuate(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	list := []map[string]any{testdrive.Described("old", s), testdrive.Described("new", testdrive.Private(t, s.Flavour)), testdrive.Described("twin", s)}
	all := servers.AllMySQL(t)
	other := slices.IndexFunc(all, func(o servers.MySQL) bool { return o.Flavour != s.Flavour })
	if other >= 0 {
		list = append(list, testdrive.Described("other", all[other]))
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
	p := testdrive.StartPlatform(t, s, env)
	o := p.Operator(env)
	o.Run(t, 0, "drain", "new")
	o.Run(t, 0, "drain", "twin")
	if other >= 0 {
		o.Run(t, 0, "drain", "other")
	}
	i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
	b, c := i.Bound(t, nil)
	testdrive.MakeObjectsAs(t, c)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE written AS SELECT 1 AS id")
	if r := o.Run(t, 1, "move", i.ID, "new"); !strings.Contains(r.Stderr, "full or drained") {
		t.Errorf("a move to a drained server: %s", r.Stderr)
	}
	o.Run(t, 0, "drain", "--undo", "twin")
	if r := o.Run(t, 1, "move", i.ID, "twin"); !strings.Contains(r.Stderr, "same server") {
		t.Errorf("a move to the same server under another name: %s", r.Stderr)
	}
	o.Run(t, 0, "drain", "--undo", "new")
	if r := o.Run(t, 0, "drain", "--evacuate", "old"); !strings.Contains(r.Stdout, i.ID+" is on new.") {
		t.Errorf("the evacuation printed %q", r.Stdout)
	}
	moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	if moved.Port == c.Port {
		t.Error("the binding has the old address")
	}
	testdrive.ExpectSame(t, c, moved)
	testdrive.Exec(t, moved.Open(t), "CALL add_item()")
	if got := o.IDs(t, "id", "instances", "--server", "old"); len(got) != 0 {
		t.Errorf("on the evacuated server: %q", got)
	}
	o.Refuse(t, "kept for bindings that are older than the move: 1", "move", i.ID, "old")
	expectFormer(t, o, i.ID)
	b.Unbind(t).Expect(t, http.StatusOK)
	o.Run(t, 0, "drain", "--undo", "old")
	testdrive.Eventually(t, limits.Stuck, "the instance is moved back once its former place is removed", func() bool {
		r := testdrive.Run(t, env, "move", i.ID, "old")
		if r.Status != 0 && !strings.Contains(r.Stderr, "is being removed") {
			t.Fatalf("the move back: %s", r.Stderr)
		}
		return r.Status == 0
	})
	if state, _ := p.Desk(t, env, nil).Ended(t, o.IDs(t, "task", "tasks", "--instance", i.ID,
		"--limit", "1")[0]); state != "succeeded" {
		t.Errorf("the move back %s", state)
	}
	if other < 0 { // as in EachMySQL, what is not installed is not tested
		return
	}
	o.Run(t, 0, "drain", "--undo", "other")
	for _, name := range []string{"old", "new", "twin"} {
		o.Run(t, 0, "drain", name)
	}
	r := p.OwnInstance(t, "shared-small").Clone(t, i.ID, nil).Expect(t, http.StatusBadRequest)
	if says := r.String("description"); !strings.Contains(says, "mysqldump") {
		t.Errorf("a copy to the other flavour: %s", says)
	}
}

package operators

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The address of a dedicated server is recorded with its instance, so a bind does not ask the launcher, except for an
// instance from before there were such records.
func TestBindAsksNoLauncher(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := testdrive.StartPlatform(t, s, env)
	i := p.OwnInstance(t, "dedicated-small")
	i.Await(t, i.BeginProvision(t))
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE instance SET endpoint = NULL")
	i.NewBinding().Bind(t, nil).Expect(t, http.StatusCreated)

	states, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "state.json"))
	if err != nil || len(states) != 1 {
		t.Fatalf("the launcher's records: %q, %v", states, err)
	}
	hidden := states[0] + ".hidden" // the launcher knows of no server now
	if err := os.Rename(states[0], hidden); err != nil {
		t.Fatal(err)
	}
	b, c := i.Bound(t, nil)
	if err := c.Open(t).PingContext(t.Context()); err != nil {
		t.Errorf("log in as the binding: %v", err)
	}
	b.Fetch(t).Expect(t, http.StatusOK)
	b.Unbind(t).Expect(t, http.StatusOK)
	if err := os.Rename(hidden, states[0]); err != nil {
		t.Fatal(err)
	}
	i.Remove(t)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

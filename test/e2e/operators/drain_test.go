package operators

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// twoServers describes one server by two names, the first of which takes the most.
func twoServers(t *testing.T, server servers.MySQL) map[string]string {
	t.Helper()
	env := testdrive.Environment(t, server)
	roomy, other := testdrive.Described("roomy", server), testdrive.Described("other", server)
	other["max_databases"] = 2
	text, err := json.Marshal([]map[string]any{roomy, other})
	if err != nil {
		t.Fatal(err)
	}
	env["MYSQL_SERVERS"], env["LAUNCHER"] = string(text), "none"
	return env
}

func TestDrain(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := twoServers(t, s)
	first, second := testdrive.StartPlatform(t, s, env), testdrive.StartPlatform(t, s, env)
	o := first.Operator(env)
	kept := first.Provisioned(t, "shared-small", nil)
	second.Provisioned(t, "shared-small", nil) // both brokers know now how full the servers are
	if got := o.IDs(t, "id", "instances", "--server", "roomy"); len(got) != 1 {
		t.Fatalf("one on each: %q", got)
	}
	if out := o.Run(t, 0, "drain", "roomy").Stdout; out != "roomy gets no more instances. It holds 1.\n" {
		t.Errorf("drain printed %q", out)
	}
	second.Provisioned(t, "shared-small", nil) // the one place on the other server that is left
	testdrive.ExpectRefusal(t, first.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, nil), 400, "no room")
	if got := o.IDs(t, "id", "instances", "--server", "roomy"); len(got) != 1 {
		t.Errorf("on the drained server: %q", got)
	}
	_, c := kept.Bound(t, nil) // what it holds goes on
	c.Open(t)
	testdrive.ExpectEmpty(t, kept.UpdatePlan(t, testdrive.Sync, "shared-large"), http.StatusOK)

	again := testdrive.StartPlatform(t, s, env)
	testdrive.ExpectFigures(t, again, map[string]string{`mysql_broker_shared_server_drained{server="roomy"}`: "1",
		`mysql_broker_shared_server_drained{server="other"}`: "0"})
	testdrive.ExpectRefusal(t, again.NewInstance(t, "shared-small").Provision(t, testdrive.Sync, nil), 400, "no room")
	testdrive.ExpectLine(t, o.Run(t, 0, "servers").Stdout, "roomy", "drained", "1", "1000")
	if got := o.IDs(t, "server", "servers", "--state", "drained"); len(got) != 1 || got[0] != "roomy" {
		t.Errorf("drained: %q", got)
	}
	if out := o.Run(t, 0, "drain", "other").Stdout; !strings.Contains(out, "No shared server is left") {
		t.Errorf("drain of the last one printed %q", out)
	}
	if out := o.Run(t, 0, "drain", "--undo", "roomy").Stdout; out != "roomy gets instances again.\n" {
		t.Errorf("drain --undo printed %q", out)
	}
	for _, p := range []testdrive.Platform{first, again} {
		p.Provisioned(t, "shared-small", nil)
	}
	if got := o.IDs(t, "id", "instances", "--server", "roomy"); len(got) != 3 {
		t.Errorf("on the server that gets instances again: %q", got)
	}
}

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// terminal is where a person types client commands.
type terminal struct{ env map[string]string }

// run returns what a command that succeeds prints.
func (u terminal) run(t *testing.T, args ...string) string {
	t.Helper()
	return testdrive.Run(t, u.env, append([]string{"client"}, args...)...).Expect(t, 0).Stdout
}

// expect fails the test unless the command succeeds and prints a text.
func (u terminal) expect(t *testing.T, text string, args ...string) {
	t.Helper()
	if out := u.run(t, args...); !strings.Contains(out, text) {
		t.Errorf("client %s printed %q without %q", strings.Join(args, " "), out, text)
	}
}

// read decodes the one JSON document that a command prints with --json.
func (u terminal) read(t *testing.T, document any, args ...string) {
	t.Helper()
	out := u.run(t, append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), document); err != nil {
		t.Fatalf("client %s --json: %v: %q", strings.Join(args, " "), err, out)
	}
}

// Every command prints one JSON document with --json, and nothing else.
func TestClientJSON(t *testing.T) {
	t.Parallel()
	p := startPlatform(t, servers.AllMySQL(t)[0], firstEnvironment(t))
	user := terminal{map[string]string{"BROKER_URL": p.URL, "BROKER_USERNAME": p.Username,
		"BROKER_PASSWORD": p.Password, "MYSQL_BROKER_CLIENT_STATE": filepath.Join(t.TempDir(), "client.json")}}
	var catalog struct{ Services []struct{ Name string } }
	if user.read(t, &catalog, "catalog"); len(catalog.Services) != 1 || catalog.Services[0].Name != "mysql" {
		t.Errorf("catalog: %+v", catalog)
	}
	var all []struct{ Name string }
	if user.read(t, &all, "services"); len(all) != 0 {
		t.Errorf("services before any was made: %+v", all)
	}
	type shown struct {
		Name string
		Plan struct{ Name string }
	}
	expect := func(plan string, args ...string) {
		t.Helper()
		var s shown
		if user.read(t, &s, args...); s.Name != "db" || s.Plan.Name != plan {
			t.Errorf("%v: %+v", args, s)
		}
	}
	expect("shared-async", "create-service", "shared-async", "db")
	expect("shared-small", "update-service", "db", "-p", "shared-small")
	expect("shared-small", "service", "db")
	if user.read(t, &all, "services"); len(all) != 1 || all[0].Name != "db" {
		t.Errorf("services: %+v", all)
	}
	var binding struct{ Credentials credentials }
	user.read(t, &binding, "create-service-key", "db", "key")
	binding.Credentials.open(t)
	user.expect(t, "1 of 10", "service", "db")
	var deleted struct{ Deleted string }
	if user.read(t, &deleted, "delete-service-key", "db", "key"); deleted.Deleted != "key" {
		t.Errorf("delete-service-key: %+v", deleted)
	}
	expect("shared-small", "delete-service", "db")
}

package e2e

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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
	p := testdrive.StartPlatform(t, servers.Any(t), testdrive.AnyEnvironment(t))
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
	var binding struct{ Credentials testdrive.Credentials }
	user.read(t, &binding, "create-service-key", "db", "key")
	binding.Credentials.Open(t)
	user.expect(t, "1 of 10", "service", "db")
	var deleted struct{ Deleted string }
	if user.read(t, &deleted, "delete-service-key", "db", "key"); deleted.Deleted != "key" {
		t.Errorf("delete-service-key: %+v", deleted)
	}
	expect("shared-small", "delete-service", "db")
}

// refused fails the test unless the command fails and says why.
func (u terminal) refused(t *testing.T, why string, args ...string) {
	t.Helper()
	if said := u.fail(t, args...); !strings.Contains(said, why) {
		t.Errorf("client %s says %q without %q", strings.Join(args, " "), said, why)
	}
}

// TestClient covers the client's messages, and what it stores.
func TestClient(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = twoOfferings(t)
	p := testdrive.StartPlatform(t, s, env)
	u := atTerminal(t, p, s.Flavour)
	u.expect(t, "shared-async", "catalog")
	u.refused(t, "mysql/shared-small, other/shared-small", "create-service", "shared-small", "mine")
	create := []string{"create-service", "mysql/shared-small", "mine", "-c", `{"charset":"utf8mb4"}`}
	u.expect(t, "Created service instance mine.", create...)
	u.refused(t, "there is a service instance mine already: create succeeded", create...)
	u.refused(t, "Service broker error: ", "create-service", "mysql/shared-small", "bad", "-c", `{"wrong":1}`)
	u.refused(t, "there is no plan huge", "create-service", "huge", "bad")
	u.refused(t, "the parameters are not a JSON object: [1]", "create-service", "mysql/shared-small", "bad", "-c", "[1]")
	if all := u.run(t, "services"); strings.Contains(all, "bad") {
		t.Errorf("what was refused is listed: %s", all)
	}
	u.refused(t, "nothing to change", "update-service", "mine")
	u.refused(t, "there is no plan mysql/huge", "update-service", "mine", "-p", "huge")
	u.expect(t, "Updated service instance mine.", "update-service", "mine", "-p", "shared-large")
	u.expect(t, "update succeeded", "service", "mine")

	made := u.run(t, "create-service-key", "mine", "k", "-c", `{"role":"admin"}`)
	if shown := u.run(t, "service-key", "mine", "k"); shown != made || !strings.Contains(made, `"uri": "mysql://`) {
		t.Errorf("service-key printed %q, create-service-key %q", shown, made)
	}
	u.refused(t, "has a key k already", "create-service-key", "mine", "k")
	u.refused(t, "Service broker error: ", "create-service-key", "mine", "bad", "-c", `{"wrong":1}`)
	u.refused(t, "service instance mine has no key bad", "service-key", "mine", "bad")
	for typed, want := range map[string]string{"service ": "mine", "delete-service-key mine ": "k", "service-key nobodys ": "",
		"create-service-key mine ": "", "create-service mysql/shared-s": "mysql/shared-small", "service mine ": ""} {
		out := testdrive.Run(t, u.env, append([]string{"__complete", "client"}, strings.Split(typed, " ")...)...)
		words, _, _ := strings.Cut(out.Stdout, ":")
		if got := strings.Join(strings.Fields(words), " "); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%q is completed by %q, not %q", typed, got, want)
		}
	}
	u.expectInventory(t, p)
	u.expect(t, "Deleted service instance mine.", "delete-service", "mine") // and its key
	u.refused(t, "there is no service instance mine", "service", "mine")

	u.refused(t, "collation", "create-service", "mysql/dedicated-small", "failed", "-c", `{"collation":"utf8mb4_klingon_ci"}`)
	u.expect(t, "create failed", "services")
	u.refused(t, `create failed. Run "mysql-broker client delete-service failed" first`, "create-service",
		"mysql/dedicated-small", "failed")
	u.expect(t, "Deleted service instance failed.", "delete-service", "failed")
	u.interruptCreation(t, p)
}

// expectInventory checks that the file with the names of instances holds no credentials, is readable to its owner alone,
// and knows those of one broker from another's.
func (u terminal) expectInventory(t *testing.T, p testdrive.Platform) {
	t.Helper()
	file := u.env["MYSQL_BROKER_CLIENT_STATE"]
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the inventory: %v, %v", info, err)
	}
	if content, err := os.ReadFile(file); err != nil || strings.Contains(string(content), "mysql://") {
		t.Errorf("credentials are in %s: %v", content, err)
	}
	elsewhere := strings.Replace(p.URL, "127.0.0.1", "localhost", 1)
	u.expect(t, "No service instances", "services", "--url", elsewhere)
	guess := terminal{maps.Clone(u.env)}
	guess.env["BROKER_PASSWORD"] = "guess"
	guess.refused(t, "the broker refuses the user name or password", "catalog")
	p.AwaitLog(t, `"platform":"mysql-broker-client"`)
}

// interruptCreation presses Ctrl-C while the client waits: the broker goes on, and the client can be asked later.
func (u terminal) interruptCreation(t *testing.T, p testdrive.Platform) {
	t.Helper()
	release := p.HoldLaunches(t)
	waiting := testdrive.Launch(t, u.env, "client", "create-service", "mysql/dedicated-small", "held")
	testdrive.Eventually(t, testdrive.Patience, "the instance is being made", func() bool {
		return strings.Contains(u.run(t, "services"), "create in progress")
	})
	waiting.AwaitLog(t, "Creating service instance held")
	waiting.Signal(t, syscall.SIGINT)
	if status := waiting.Wait(t); status != 1 || !strings.Contains(waiting.Log(), "the broker continues") {
		t.Errorf("the interrupted client ended with %d: %s", status, waiting.Log())
	}
	u.refused(t, "in progress", "update-service", "held", "-p", "dedicated-large")
	u.expect(t, "create in progress", "services")
	release()
	testdrive.Eventually(t, testdrive.Patience, "the creation has succeeded", func() bool {
		return strings.Contains(u.run(t, "service", "held"), "create succeeded")
	})
	u.run(t, "delete-service", "held")
}

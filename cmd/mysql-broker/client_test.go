package main

import (
	"maps"
	"os"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/testdrive"
)

// TestClient covers the client's messages, and what it stores.
func TestClient(t *testing.T) {
	// There is a second offering, of the same plans.
	p, _ := testdrive.OnePlatform(t, "CATALOG", testdrive.EditedCatalog(t, func(text string) string {
		_, offering, _ := strings.Cut(text, "services:\n")
		other := regexp.MustCompile(`- id: \w{8}-\w{4}`).ReplaceAllStringFunc(offering, func(id string) string {
			return id[:len(id)-4] + "ffff"
		})
		return text + strings.Replace(other, "name: mysql\n", "name: other\n", 1)
	}))
	u := p.Terminal(t)
	expectJSON(t, p.Terminal(t))
	u.Expect(t, "shared-async", "catalog")
	u.Refused(t, "mysql/shared-small, other/shared-small", "create-service", "shared-small", "mine")
	create := []string{"create-service", "mysql/shared-small", "mine", "-c", `{"charset":"utf8mb4"}`}
	u.Expect(t, "Created service instance mine.", create...)
	u.Refused(t, "there is a service instance mine already: create succeeded", create...)
	u.Refused(t, "Service broker error: ", "create-service", "mysql/shared-small", "bad", "-c", `{"wrong":1}`)
	u.Refused(t, "there is no plan huge", "create-service", "huge", "bad")
	u.Refused(t, "the parameters are not a JSON object: [1]", "create-service", "mysql/shared-small", "bad", "-c", "[1]")
	all := u.Run(t, "services")
	assert.False(t, strings.Contains(all, "bad"), "what was refused is listed: %s", all)
	u.Refused(t, "nothing to change", "update-service", "mine")
	u.Refused(t, "there is no plan mysql/huge", "update-service", "mine", "-p", "huge")
	u.Expect(t, "Updated service instance mine.", "update-service", "mine", "-p", "shared-large")
	u.Expect(t, "update succeeded", "service", "mine")

	made := u.Run(t, "create-service-key", "mine", "k", "-c", `{"role":"admin"}`)
	shown := u.Run(t, "service-key", "mine", "k")
	assert.True(t, shown == made && strings.Contains(made, `"uri": "mysql://`),
		"service-key printed %q, create-service-key %q", shown, made)
	u.Refused(t, "has a key k already", "create-service-key", "mine", "k")
	u.Refused(t, "Service broker error: ", "create-service-key", "mine", "bad", "-c", `{"wrong":1}`)
	u.Refused(t, "service instance mine has no key bad", "service-key", "mine", "bad")
	// The file with the names of instances holds no credentials, is readable to its owner alone, and knows those of one
	// broker from another's.
	file := u.Env["MYSQL_BROKER_CLIENT_STATE"]
	info, err := os.Stat(file)
	assert.True(t, err == nil && info.Mode().Perm() == 0o600, "the inventory: %v, %v", info, err)
	content, err := os.ReadFile(file)
	assert.True(t, err == nil && !strings.Contains(string(content), "mysql://"), "credentials are in %s: %v", content, err)
	elsewhere := strings.Replace(p.URL, "127.0.0.1", "localhost", 1)
	u.Expect(t, "No service instances", "services", "--url", elsewhere)
	guess := testdrive.Terminal{Env: maps.Clone(u.Env)}
	guess.Env["BROKER_PASSWORD"] = "guess"
	guess.Refused(t, "the broker refuses the user name or password", "catalog")
	p.AwaitLog(t, `"platform":"mysql-broker-client"`)
	u.Expect(t, "Deleted service instance mine.", "delete-service", "mine") // and its key
	u.Refused(t, "there is no service instance mine", "service", "mine")

	u.Refused(t, "collation", "create-service", "mysql/dedicated-small", "failed", "-c", `{"collation":"utf8mb4_klingon_ci"}`)
	u.Expect(t, "create failed", "services")
	u.Refused(t, `create failed. Run "mysql-broker client delete-service failed" first`, "create-service",
		"mysql/dedicated-small", "failed")
	u.Expect(t, "Deleted service instance failed.", "delete-service", "failed")
	interruptCreation(t, u, p)
}

// expectJSON expects that every command prints one JSON document with --json, and nothing else.
func expectJSON(t *testing.T, user testdrive.Terminal) {
	var catalog struct{ Services []struct{ Name string } }
	user.Read(t, &catalog, "catalog")
	assert.True(t, len(catalog.Services) == 2 && catalog.Services[0].Name == "mysql", "catalog: %+v", catalog)
	var all []struct{ Name string }
	user.Read(t, &all, "services")
	assert.Empty(t, all, "services before any was made")
	type shown struct {
		Name string
		Plan struct{ Name string }
	}
	expect := func(plan string, args ...string) {
		var s shown
		user.Read(t, &s, args...)
		assert.True(t, s.Name == "db" && s.Plan.Name == plan, "%v: %+v", args, s)
	}
	expect("shared-async", "create-service", "mysql/shared-async", "db")
	expect("shared-small", "update-service", "db", "-p", "shared-small")
	expect("shared-small", "service", "db")
	user.Read(t, &all, "services")
	assert.True(t, len(all) == 1 && all[0].Name == "db", "services: %+v", all)
	var binding struct{ Credentials testdrive.Credentials }
	user.Read(t, &binding, "create-service-key", "db", "key")
	binding.Credentials.Open(t)
	user.Expect(t, "1 of 10", "service", "db")
	var deleted struct{ Deleted string }
	user.Read(t, &deleted, "delete-service-key", "db", "key")
	assert.Equal(t, "key", deleted.Deleted, "delete-service-key")
	expect("shared-small", "delete-service", "db")
}

// interruptCreation presses Ctrl-C while the client waits: the broker goes on, and the client can be asked later.
func interruptCreation(t *testing.T, u testdrive.Terminal, p testdrive.Platform) {
	t.Helper()
	release := p.HoldLaunches(t)
	waiting := testdrive.Launch(t, u.Env, "client", "create-service", "mysql/dedicated-small", "held")
	testdrive.Eventually(t, "the instance is being made", func() bool {
		return strings.Contains(u.Run(t, "services"), "create in progress")
	})
	waiting.AwaitLog(t, "Creating service instance held")
	waiting.Signal(t, syscall.SIGINT)
	assert.Equal(t, 1, waiting.Wait(t), "the interrupted client ended with")
	assert.Contains(t, waiting.Log(), "the broker continues")
	u.Refused(t, "in progress", "update-service", "held", "-p", "dedicated-large")
	u.Expect(t, "create in progress", "services")
	release()
	testdrive.Eventually(t, "the creation has succeeded", func() bool {
		return strings.Contains(u.Run(t, "service", "held"), "create succeeded")
	})
	u.Run(t, "delete-service", "held")
}

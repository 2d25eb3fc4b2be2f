package main

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestOperatorsLists(t *testing.T) {
	p, env := testdrive.OnePlatform(t)
	o := p.Operator(env)
	name := "orders \x1b[2J\n\u202e\u009b" + strings.Repeat("long ", 100) // in pages and lists, it ends after 255 characters
	named := p.Provisioned(t, "shared-small", testdrive.Body{"context": testdrive.Body{"platform": "cloudfoundry", "instance_name": name,
		"organization_name": "sales", "space_name": "production"}, "organization_guid": "sales-guid"})
	name = name[:258]
	binding, c := named.Bound(t, testdrive.Body{"parameters": testdrive.Body{"role": "read-only", "ttl": "8h"}})
	o.Seen.Add(c.Password)
	other := p.Provisioned(t, "shared-large", nil)
	dedicated := p.Provisioned(t, "dedicated-small", nil)

	for _, test := range []struct {
		filter string
		want   []testdrive.Instance
	}{
		{"", []testdrive.Instance{named, other, dedicated}},
		{"--plan shared-large", []testdrive.Instance{other}},
		{"--plan " + other.PlanID, []testdrive.Instance{other}},
		{"--server shared-1", []testdrive.Instance{named, other}},
		{"--dedicated", []testdrive.Instance{dedicated}},
		{"--state ready", []testdrive.Instance{named, other, dedicated}},
		{"--state create-failed", nil},
		{"--org sales", []testdrive.Instance{named}},
		{"--org sales-guid --space production", []testdrive.Instance{named}},
		{"--org an-organization", []testdrive.Instance{other, dedicated}},
		{"--space a-space", []testdrive.Instance{named, other, dedicated}},
		{"--since 1d", []testdrive.Instance{named, other, dedicated}},
		{"--since " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339), nil},
		{"--limit 3", []testdrive.Instance{named, other, dedicated}},
	} {
		want := []string{}
		for _, i := range test.want {
			want = append(want, i.ID)
		}
		slices.Sort(want)
		got := o.IDs(t, "id", append([]string{"instances"}, strings.Fields(test.filter)...)...)
		assert.True(t, slices.Equal(got, want), "instances %s: %q, want %q", test.filter, got, want)
	}
	assert.Len(t, o.IDs(t, "id", "instances", "--limit", "2"), 2, "at most two")

	lines := strings.Split(strings.TrimSuffix(o.Run(t, 0, "instances", "--org", "sales").Stdout, "\n"), "\n")
	assert.True(t, len(lines) == 2 && strings.HasPrefix(lines[0], "id\tname\tplan\t") &&
		strings.HasPrefix(lines[1], named.ID+"\t"+strconv.Quote(name)+"\tshared-small\tready\tshared-1\tsales\tproduction\t1\t"),
		"lines for other programs: %q", lines)
	var shown struct {
		ID, Name, Plan, Kind, Server string
		Bindings                     []struct{ ID, Role, Account string }
		Tasks                        []struct{ Task, Kind, State string } `json:"latest_tasks"`
	}
	o.Read(t, &shown, "instances", named.ID)
	assert.True(t, shown.Name == name && shown.Server == "shared-1" && len(shown.Bindings) == 1 &&
		shown.Bindings[0].Account == c.Username && len(shown.Tasks) == 2 && shown.Tasks[0].Kind == "bind",
		"the instance: %+v", shown)
	text := o.Run(t, 0, "instances", named.ID).Stdout
	testdrive.ExpectLine(t, text, "organization:", "sales (sales-guid)")
	testdrive.ExpectLine(t, text, binding.BindingID, "read-only", c.Username)
	testdrive.ExpectLine(t, text, "task_", "provision", "succeeded")

	var listed []struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	o.Read(t, &listed, "bindings", named.ID)
	require.Len(t, listed, 1)
	assert.InDelta(t, 8*time.Hour, time.Until(listed[0].ExpiresAt), float64(time.Hour), "the binding expires")
	got := o.IDs(t, "id", "bindings", "--role", "read-only", "--state", "ready", "--server", "shared-1")
	assert.True(t, len(got) == 1 && got[0] == binding.BindingID, "bindings: %q", got)
	assert.Empty(t, o.IDs(t, "id", "bindings", other.ID), "bindings of an instance without")
	testdrive.ExpectLine(t, o.Run(t, 0, "bindings", named.ID, binding.BindingID).Stdout, "account:", c.Username)

	tasks := o.IDs(t, "task", "tasks", "--instance", named.ID)
	assert.True(t, len(tasks) == 2 && tasks[0] == shown.Tasks[0].Task, "tasks of an instance: %q", tasks)
	got = o.IDs(t, "task", "tasks", "--kind", "provision", "--state", "succeeded", "--plan", "shared-small",
		"--since", "1h")
	assert.True(t, len(got) == 1 && got[0] == tasks[1], "its provision: %q", got)
	assert.Empty(t, o.IDs(t, "task", "tasks", "--state", "in-progress"), "in progress")
	testdrive.ExpectLine(t, o.Run(t, 0, "tasks", tasks[1]).Stdout, "state:", "succeeded")

	var all []struct {
		Server, State, Flavour string
		Instances              int
	}
	o.Read(t, &all, "servers")
	assert.True(t, len(all) == 1 && all[0].Server == "shared-1" && all[0].State == "ok" &&
		strings.EqualFold(all[0].Flavour, p.Server.Flavour) && all[0].Instances == 2, "servers: %+v", all)
	own := o.IDs(t, "server", "servers", "--dedicated")
	require.Len(t, own, 1, "dedicated servers")
	testdrive.ExpectLine(t, o.Run(t, 0, "servers", "--dedicated").Stdout, own[0], "process")
	testdrive.ExpectLine(t, o.Run(t, 0, "servers", own[0]).Stdout, "instance:", dedicated.ID)
	testdrive.ExpectLine(t, strings.ToLower(o.Run(t, 0, "servers", "shared-1").Stdout), "version:", p.Server.Flavour)

	for _, list := range []string{"backups", "retained", "quotas", "audit", "doctor"} {
		o.Run(t, 0, list)
		o.Run(t, 0, list, "--json")
	}
	dedicated.Remove(t)
	var deleted struct {
		Instance string `json:"instance_id"`
		State    string
		Created  time.Time `json:"created_at"`
	}
	o.Read(t, &deleted, "servers", own[0])
	assert.True(t, deleted.Instance == dedicated.ID && deleted.State == "deleted" &&
		time.Since(deleted.Created) <= time.Hour, "the server of a deleted instance: %+v", deleted)
	testdrive.ExpectEmpty(t, named.Deprovision(t, testdrive.Sync), http.StatusOK)
	expectListsOfRemovedPlans(t, p, o, env, other)
	expectFindings(t, p, env)
}

func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	env := wrongly(t, map[string]string{"DATABASE_URL": servers.Postgres(t)})
	testdrive.Run(t, env, "migrate").Expect(t, 0)
	o := testdrive.Operator{Env: env, Seen: &testdrive.Secrets{}}
	o.Seen.Add(secret, env["ENCRYPTION_KEYSET"])
	o.Refuse(t, `no service instance "nobody's"`, "instances", "nobody's")
	o.Refuse(t, "no service binding", "bindings", "a", "b")
	o.Refuse(t, "no task_99", "tasks", "task_99")
	o.Refuse(t, "task_4711", "tasks", "99")
	o.Refuse(t, "no task_99", "tasks", "retry", "task_99")
	o.Refuse(t, "no task_99", "tasks", "cancel", "task_99")
	o.Refuse(t, `no server "nowhere"`, "servers", "nowhere")
	o.Refuse(t, `no shared server "nowhere"; there is ok`, "drain", "nowhere")
	o.Refuse(t, "no shared server", "instances", "--server", "nowhere")
	o.Refuse(t, "the catalog has shared-small", "instances", "--plan", "huge")
	o.Refuse(t, "must be one of creating, ready, create-failed, delete-failed", "instances", "--state", "fine")
	o.Refuse(t, "use it as:", "instances", "")
	assert.Contains(t, o.Run(t, 0, "recover").Stdout, "leave it out with --without")
	assert.Contains(t, o.Run(t, 0, "recover", "--without", "ok").Stdout, "There is nothing to be done.")

	for _, command := range []string{"instances", "bindings", "tasks", "servers", "doctor"} {
		out := testdrive.Run(t, map[string]string{"CATALOG": testdrive.Root() + "/catalog.yml"}, command).Expect(t, 78)
		for _, name := range []string{"DATABASE_URL", "ENCRYPTION_KEYSET"} {
			assert.Contains(t, out.Stderr, name, "%s: %s is not mentioned", command, name)
		}
		assert.False(t, strings.Contains(out.Stderr, "BROKER_"),
			"%s asks for the platform's credentials: %s", command, out.Stderr)
		empty := wrongly(t, map[string]string{"DATABASE_URL": servers.EmptyPostgres(t)})
		assert.Contains(t, testdrive.Run(t, empty, command).Expect(t, 1).Stderr, "mysql-broker migrate", command)
	}
}

// expectListsOfRemovedPlans expects that lists include instances whose plan or server was removed from the catalog or the
// configuration, and servers that lack what the broker needs.
func expectListsOfRemovedPlans(t *testing.T, p testdrive.Platform, o testdrive.Operator, env map[string]string, i testdrive.Instance) {
	o.Env["MYSQL_SERVERS"] = "[]"
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE instance SET plan_id = 'removed' WHERE id = $1", i.ID)
	assert.Equal(t, []string{i.ID}, o.IDs(t, "id", "instances", "--plan", "removed", "--server", "shared-1"), "instances")
	testdrive.ExpectLine(t, o.Run(t, 0, "servers").Stdout, "shared-1", "not configured", "1")
	lesser := p.Server
	lesser.BrokerUser, lesser.BrokerPassword = "lesser_"+i.ID[:8], "a-password-of-nobody"
	testdrive.Exec(t, p.Admin(t), "CREATE USER '"+lesser.BrokerUser+"' IDENTIFIED BY '"+lesser.BrokerPassword+"'")
	o.Env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described("shared-1", lesser)})
	shown := o.Run(t, 0, "servers", "shared-1").Stdout
	testdrive.Exec(t, p.Admin(t), "DROP USER '"+lesser.BrokerUser+"'")
	assert.True(t, strings.Contains(shown, "unusable") && strings.Contains(shown, "GRANT "),
		"a server on which the broker lacks privileges is shown as %s", shown)
	o.Env["MYSQL_SERVERS"] = "[]"
	testdrive.OpenTasks(t, env).Exec(t, "UPDATE instance SET plan_id = $2 WHERE id = $1", i.ID, i.PlanID)
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
	assert.Equal(t, "[]\n", o.Run(t, 0, "servers", "--json").Stdout,
		"servers that are neither configured nor hold anything")
}

// expectFindings has PostgreSQL forget an instance with its binding, which the doctor then finds and drops, and the server
// lose a database, which the doctor cannot make again.
func expectFindings(t *testing.T, p testdrive.Platform, env map[string]string) {
	o, lost, kept := p.Operator(env), p.MakeOwn(t, "shared-small"), p.Provisioned(t, "shared-small", nil)
	_, c := lost.Bound(t, nil)
	_, d := kept.Bound(t, nil)
	testdrive.OpenTasks(t, env).Exec(t, "DELETE FROM instance WHERE id = $1", lost.ID)
	found := o.Run(t, 1, "doctor")
	testdrive.ExpectLine(t, found.Stdout, "orphan", "shared-1", "database", c.Database, "--repair: drop it")
	testdrive.ExpectLine(t, found.Stdout, "orphan", "account", c.Username)
	assert.Contains(t, found.Stdout, "databases 2, accounts 2", "doctor")
	assert.Contains(t, found.Stderr, "problems that remain: 2", "doctor")
	testdrive.ExpectLine(t, o.Run(t, 0, "doctor", "--repair").Stdout, "orphan", c.Database, "dropped")
	testdrive.ExpectNothingLeft(t, p, c.Database, c.Username)
	testdrive.Exec(t, p.Admin(t), "DROP DATABASE "+d.Database)
	out := o.Run(t, 1, "doctor", "--repair").Stdout
	testdrive.ExpectLine(t, out, "missing", d.Database, "restore it from a backup")
}

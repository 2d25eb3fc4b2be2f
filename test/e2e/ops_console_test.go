package e2e

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// operator runs commands in the environment of serve, without the platform's password. No output may contain a secret.
type operator struct {
	env  map[string]string
	seen *secrets
}

func (p platform) operator(env map[string]string) operator {
	env = maps.Clone(env)
	delete(env, "BROKER_USERNAME")
	delete(env, "BROKER_PASSWORD")
	return operator{env, p.seen}
}

// run runs a command, expects this exit status, and returns the output.
func (o operator) run(t *testing.T, status int, args ...string) testdrive.Output {
	t.Helper()
	out := testdrive.Run(t, o.env, args...).Expect(t, status)
	o.seen.check(t, "mysql-broker "+strings.Join(args, " "), out.Stdout+out.Stderr)
	return out
}

// read decodes what a command prints with --json.
func (o operator) read(t *testing.T, document any, args ...string) {
	t.Helper()
	out := o.run(t, 0, append(args, "--json")...).Stdout
	if err := json.Unmarshal([]byte(out), document); err != nil {
		t.Fatalf("%v: %q", err, out)
	}
}

// outcome waits until a task has ended, and returns its state and what users read about it.
func (o operator) outcome(t *testing.T, ts tasks, task string) (state, description string) {
	t.Helper()
	ts.await(t, task, "ends", "state <> 'in progress'")
	var shown struct{ State, Description string }
	o.read(t, &shown, "tasks", task)
	return shown.State, shown.Description
}

// ids are the fields of that name in what a list prints with --json.
func (o operator) ids(t *testing.T, field string, args ...string) []string {
	t.Helper()
	var rows []map[string]any
	o.read(t, &rows, args...)
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i], _ = row[field].(string)
	}
	return ids
}

// refuse fails the test unless a command fails and says why.
func (o operator) refuse(t *testing.T, why string, args ...string) {
	t.Helper()
	if out := o.run(t, 1, args...); !strings.Contains(out.Stderr, why) || out.Stdout != "" {
		t.Errorf("%q printed %q and %q without %q", args, out.Stdout, out.Stderr, why)
	}
}

func TestOperatorsLists(t *testing.T) {
	onePlatform(t, func(t *testing.T, p platform, env map[string]string) {
		o := p.operator(env)
		named := p.provisioned(t, "shared-small", body{"context": body{"platform": "cloudfoundry", "instance_name": "orders",
			"organization_name": "sales", "space_name": "production"}, "organization_guid": "sales-guid"})
		binding, c := named.bound(t, body{"parameters": body{"role": "read-only"}})
		o.seen.add(c.Password)
		other := p.provisioned(t, "shared-large", nil)
		dedicated := p.provisioned(t, "dedicated-small", nil)

		for _, test := range []struct {
			filter string
			want   []instance
		}{
			{"", []instance{named, other, dedicated}},
			{"--plan shared-large", []instance{other}},
			{"--plan " + other.planID, []instance{other}},
			{"--server shared-1", []instance{named, other}},
			{"--dedicated", []instance{dedicated}},
			{"--state ready", []instance{named, other, dedicated}},
			{"--state create-failed", nil},
			{"--org sales", []instance{named}},
			{"--org sales-guid --space production", []instance{named}},
			{"--org an-organization", []instance{other, dedicated}},
			{"--space a-space", []instance{named, other, dedicated}},
			{"--since 1d", []instance{named, other, dedicated}},
			{"--since " + time.Now().Add(time.Hour).UTC().Format(time.RFC3339), nil},
			{"--limit 3", []instance{named, other, dedicated}},
		} {
			want := []string{}
			for _, i := range test.want {
				want = append(want, i.id)
			}
			slices.Sort(want)
			got := o.ids(t, "id", append([]string{"instances"}, strings.Fields(test.filter)...)...)
			if !slices.Equal(got, want) {
				t.Errorf("instances %s: %q, want %q", test.filter, got, want)
			}
		}
		if got := o.ids(t, "id", "instances", "--limit", "2"); len(got) != 2 {
			t.Errorf("at most two: %q", got)
		}

		lines := strings.Split(strings.TrimSuffix(o.run(t, 0, "instances", "--org", "sales").Stdout, "\n"), "\n")
		if len(lines) != 2 || !strings.HasPrefix(lines[0], "id\tname\tplan\t") ||
			!strings.HasPrefix(lines[1], named.id+"\torders\tshared-small\tready\tshared-1\tsales\tproduction\t1\t") {
			t.Errorf("lines for other programs: %q", lines)
		}
		var shown struct {
			ID, Name, Plan, Kind, Server string
			Bindings                     []struct{ ID, Role, Account string }
			Tasks                        []struct{ Task, Kind, State string } `json:"latest_tasks"`
		}
		o.read(t, &shown, "instances", named.id)
		if shown.Name != "orders" || shown.Server != "shared-1" || len(shown.Bindings) != 1 ||
			shown.Bindings[0].Account != c.Username || len(shown.Tasks) != 2 || shown.Tasks[0].Kind != "bind" {
			t.Errorf("the instance: %+v", shown)
		}
		text := o.run(t, 0, "instances", named.id).Stdout
		expectLine(t, text, "organization:", "sales (sales-guid)")
		expectLine(t, text, binding.bindingID, "read-only", c.Username)
		expectLine(t, text, "task_", "provision", "succeeded")

		if got := o.ids(t, "id", "bindings", "--role", "read-only", "--state", "ready", "--server", "shared-1"); len(got) != 1 ||
			got[0] != binding.bindingID {
			t.Errorf("bindings: %q", got)
		}
		if got := o.ids(t, "id", "bindings", other.id); len(got) != 0 {
			t.Errorf("bindings of an instance without: %q", got)
		}
		expectLine(t, o.run(t, 0, "bindings", named.id, binding.bindingID).Stdout, "account:", c.Username)

		tasks := o.ids(t, "task", "tasks", "--instance", named.id)
		if len(tasks) != 2 || tasks[0] != shown.Tasks[0].Task {
			t.Errorf("tasks of an instance: %q", tasks)
		}
		if got := o.ids(t, "task", "tasks", "--kind", "provision", "--state", "succeeded", "--plan", "shared-small",
			"--since", "1h"); len(got) != 1 || got[0] != tasks[1] {
			t.Errorf("its provision: %q", got)
		}
		if got := o.ids(t, "task", "tasks", "--state", "in-progress"); len(got) != 0 {
			t.Errorf("in progress: %q", got)
		}
		expectLine(t, o.run(t, 0, "tasks", tasks[1]).Stdout, "state:", "succeeded")

		var all []struct {
			Server, State, Flavour string
			Instances              int
		}
		o.read(t, &all, "servers")
		if len(all) != 1 || all[0].Server != "shared-1" || all[0].State != "ok" || !strings.EqualFold(all[0].Flavour, p.server.Flavour) ||
			all[0].Instances != 2 {
			t.Errorf("servers: %+v", all)
		}
		own := o.ids(t, "server", "servers", "--dedicated")
		if len(own) != 1 {
			t.Fatalf("dedicated servers: %q", own)
		}
		expectLine(t, o.run(t, 0, "servers", own[0]).Stdout, "instance:", dedicated.id)
		expectLine(t, strings.ToLower(o.run(t, 0, "servers", "shared-1").Stdout), "version:", p.server.Flavour)

		dedicated.remove(t)
		var deleted struct {
			Instance string `json:"instance_id"`
			State    string
			Created  time.Time `json:"created_at"`
		}
		o.read(t, &deleted, "servers", own[0])
		if deleted.Instance != dedicated.id || deleted.State != "deleted" || time.Since(deleted.Created) > time.Hour {
			t.Errorf("the server of a deleted instance: %+v", deleted)
		}
	})
}

func TestOperatorsMistakes(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := startPlatform(t, s, env)
	o := p.operator(env)
	o.refuse(t, `no service instance "nobody's"`, "instances", "nobody's")
	o.refuse(t, "no service binding", "bindings", "a", "b")
	o.refuse(t, "no task_99", "tasks", "task_99")
	o.refuse(t, "task_4711", "tasks", "99")
	o.refuse(t, "no task_99", "tasks", "retry", "task_99")
	o.refuse(t, "no task_99", "tasks", "cancel", "task_99")
	o.refuse(t, `no server "nowhere"`, "servers", "nowhere")
	o.refuse(t, `no shared server "nowhere"; there is shared-1`, "drain", "nowhere")
	o.refuse(t, "no shared server", "instances", "--server", "nowhere")
	o.refuse(t, "the catalog has shared-small", "instances", "--plan", "huge")
	o.refuse(t, "must be one of creating, ready, create-failed, delete-failed", "instances", "--state", "fine")
	o.refuse(t, "an age such as 90m", "tasks", "--since", "yesterday")
	o.refuse(t, "use it as: mysql-broker drain SERVER", "drain")
	o.refuse(t, "use it as:", "instances", "")

	for _, command := range []string{"instances", "bindings", "tasks", "servers", "doctor"} {
		out := testdrive.Run(t, map[string]string{"CATALOG": testdrive.Root() + "/catalog.yml"}, command).Expect(t, 78)
		for _, name := range []string{"DATABASE_URL", "ENCRYPTION_KEYSET"} {
			if !strings.Contains(out.Stderr, name) {
				t.Errorf("%s: %s is not mentioned: %s", command, name, out.Stderr)
			}
		}
		if strings.Contains(out.Stderr, "BROKER_") {
			t.Errorf("%s asks for the platform's credentials: %s", command, out.Stderr)
		}
		empty := wrongly(t, map[string]string{"DATABASE_URL": servers.EmptyPostgres(t)})
		if out := testdrive.Run(t, empty, command).Expect(t, 1); !strings.Contains(out.Stderr, "mysql-broker migrate") {
			t.Errorf("without a schema, %s printed %q", command, out.Stderr)
		}
	}
}

// Lists include instances whose plan or server was removed from the catalog or the configuration.
func TestOperatorsListsOfRemovedPlans(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	p := startPlatform(t, s, env)
	i := p.provisioned(t, "shared-small", nil)
	o := p.operator(env)
	o.env["MYSQL_SERVERS"] = "[]"
	if _, err := openTasks(t, env).pool.Exec(t.Context(), "UPDATE instance SET plan_id = 'removed' WHERE id = $1", i.id); err != nil {
		t.Fatal(err)
	}
	if got := o.ids(t, "id", "instances", "--plan", "removed", "--server", "shared-1"); len(got) != 1 || got[0] != i.id {
		t.Errorf("instances: %q", got)
	}
	expectLine(t, o.run(t, 0, "servers").Stdout, "shared-1", "not configured", "1")
	if _, err := openTasks(t, env).pool.Exec(t.Context(), "UPDATE instance SET plan_id = $2 WHERE id = $1", i.id,
		i.planID); err != nil {
		t.Fatal(err)
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	if got := o.run(t, 0, "servers", "--json").Stdout; got != "[]\n" {
		t.Errorf("servers that are neither configured nor hold anything: %q", got)
	}
}

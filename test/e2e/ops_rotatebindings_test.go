package e2e

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// rotatedBinding is a row of `mysql-broker rotate-bindings --json`.
type rotatedBinding struct {
	InstanceID string `json:"instance_id"`
	ID, Result string
	AppGUID    string `json:"app_guid"`
}

// After a leak, the old credentials give no access, and what accounts have defined keeps working.
func TestRotateBindings(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		env := testdrive.Environment(t, private)
		env["CATALOG"] = editedCatalog(t, inPlan("shared-small", "max_bindings:", "shared_role: read-write, max_bindings:"))
		p := startPlatform(t, private, env)
		o := p.operator(env)
		i, other := p.ownInstance(t, "shared-small"), p.ownInstance(t, "shared-small")
		for _, x := range []instance{i, other} {
			x.provision(t, now, nil).Expect(t, http.StatusCreated)
		}
		app := body{"bind_resource": body{"app_guid": "an-app"}}
		b, c := i.bound(t, app)
		useAsApplication(t, c)
		key, keyLogin := i.bound(t, nil)
		shared := body{"bind_resource": body{"space_guid": "a-space-that-leaked"}}
		_, untouched := other.bound(t, shared)
		exec(t, untouched.open(t), "CREATE TABLE written_by_another_space (n INT)")
		shared["parameters"] = body{"role": "admin"}
		expectRefusal(t, other.newBinding().bind(t, shared), http.StatusBadRequest, `"role"`, "read-write")
		busy := c.open(t)
		ended := make(chan error, 1)
		go func() {
			_, err := busy.ExecContext(t.Context(), "SELECT SLEEP(600)")
			ended <- err
		}()
		awaitTrue(t, p.admin(t), `SELECT EXISTS (SELECT 1 FROM information_schema.processlist
			WHERE user = ? AND info LIKE 'SELECT SLEEP%')`, c.Username)

		rotate := func(args ...string) (all []rotatedBinding) {
			t.Helper()
			o.read(t, &all, append([]string{"rotate-bindings"}, args...)...)
			return all
		}
		shown := rotate("--instance", i.id)
		for _, args := range [][]string{{"--space", "no-such-space"}, {"--instance", i.id, "--created-before", "1d"}} {
			if got := rotate(args...); len(got) != 0 {
				t.Errorf("%q: %+v", args, got)
			}
		}
		for space, want := range map[string]int{"a-space": 3, "a-space-that-leaked": 1} {
			if got := rotate("--space", space); len(got) != want {
				t.Errorf("of %s: %+v", space, got)
			}
		}
		if got := rotate("--server", "shared-1"); len(got) != 3 || len(shown) != 2 ||
			!slices.ContainsFunc(shown, func(r rotatedBinding) bool { return r.ID == b.bindingID && r.AppGUID == "an-app" }) {
			t.Errorf("of the instance %+v, of the server %+v", shown, got)
		}
		o.refuse(t, "instance", "rotate-bindings")
		o.refuse(t, "no service instance", "rotate-bindings", "--instance", "missing", "--apply")
		c.open(t)
		for _, r := range rotate("--instance", i.id, "--apply") {
			if r.Result != "changed" || r.InstanceID != i.id {
				t.Errorf("%+v", r)
			}
		}
		if err := testdrive.Receive(t, ended, "the running query ends"); err == nil {
			t.Error("the running query went on to its end")
		}
		expectRefused(t, c.fields(t))
		expectRefused(t, keyLogin.fields(t))
		untouched.open(t)
		next := i.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		if again := i.credentials(t, b.bind(t, app).Expect(t, http.StatusOK)); again != next || next.Username != c.Username {
			t.Error("the repeated bind has other credentials than the fetched binding, or another account")
		}
		db := next.open(t)
		exec(t, db, "CALL add_fruit('apple pie')")
		if got := read[int](t, db, "SELECT COUNT(*) FROM apples"); got != 3 {
			t.Errorf("the view shows %d rows", got)
		}
		expectEmpty(t, key.unbind(t), http.StatusOK)

		// The command skips a binding that is being changed, and says so.
		tasks := openTasks(t, env)
		tasks.exec(t, `INSERT INTO task (instance_id, kind, plan_id, run_at)
			SELECT id, 'update', plan_id, now() + interval '1 h' FROM instance WHERE id = '`+i.id+`'`)
		out := o.run(t, 1, "rotate-bindings", "--instance", i.id, "--apply")
		if out.Stdout == "" || out.Stderr == "" {
			t.Errorf("a busy instance: %+v", out)
		}
		tasks.exec(t, "UPDATE task SET state = 'failed', finished_at = now() WHERE kind = 'update'")
		next.open(t)
		if got := o.audit(t, "--action", "rotate", "--since", time.Now().Add(-time.Hour).Format(time.RFC3339)); len(got) != 2 ||
			got[0].Platform != "operator" || got[0].Result != "succeeded" {
			t.Errorf("the audit has %+v", got)
		}
	})
}

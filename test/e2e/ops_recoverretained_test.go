package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// PostgreSQL is restored from a backup. What was deleted after the backup is retained all the same, and what came back
// after it is not dropped.
func TestRecoverRetained(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		env["CATALOG"] = catalogRetaining(t)
		p := startPlatform(t, s, env)
		plans := []string{"shared-small", "dedicated-small"}
		was := map[string][]string{} // the state of each shop, by instance
		create := func(plan string) instance {
			i := p.ownInstance(t, plan)
			i.create(t, cf(nil), http.StatusCreated)
			_, app := i.bound(t, nil)
			db := app.open(t)
			exec(t, db, shop...)
			was[i.id] = shopState(t, db)
			return i
		}
		undelete := func(i instance) { i.create(t, cf(body{"parameters": body{"undelete": i.id}}), http.StatusCreated) }

		var deleted, back, late []instance
		for _, plan := range plans {
			deleted = append(deleted, create(plan))
			i := create(plan)
			i.delete(t)
			back = append(back, i)
		}
		backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
		for n, plan := range plans {
			deleted[n].delete(t)
			undelete(back[n])
			back[n].bound(t, nil)
			i := create(plan)
			i.delete(t)
			late = append(late, i)
		}
		stop(t, p)
		testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
		p = startPlatform(t, s, env)
		expectHeld(t, p, "loaded from a dump")
		shown := runRecover(t, env, 0)
		for _, i := range slices.Concat(deleted, late) {
			expectLine(t, shown, "adopt", "retained data", i.id)
		}
		for _, i := range back {
			expectLine(t, shown, "adopt", "instance", i.id)
		}
		runRecover(t, env, 0, "--apply")

		if again := runRecover(t, env, 0); strings.Contains(again, "retained data") {
			t.Errorf("recover is not done:\n%s", again)
		}
		var kept []string
		for _, r := range p.operator(env).retained(t) {
			kept = append(kept, r.InstanceID)
		}
		for _, i := range slices.Concat(deleted, late) {
			i = i.via(p)
			if !slices.Contains(kept, i.id) {
				t.Errorf("what %s has left is not retained: %q", i.id, kept)
			}
			i.fetch(t).Expect(t, http.StatusNotFound)
			undelete(i)
		}
		if len(kept) != 4 {
			t.Errorf("retained: %q", kept)
		}
		for _, i := range slices.Concat(deleted, late, back) {
			_, app := i.via(p).bound(t, nil)
			if is := shopState(t, app.open(t)); !slices.Equal(is, was[i.id]) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(was[i.id], "\n"), strings.Join(is, "\n"))
			}
		}
		expectHealthy(t, env)
	})
}

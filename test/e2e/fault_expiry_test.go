package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// limitedCatalog is the shipped catalog with a max_binding_ttl in its first plan.
func limitedCatalog(t *testing.T, ttl string) string {
	t.Helper()
	shipped, err := os.ReadFile(testdrive.Root() + "/catalog.yml")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/catalog.yml"
	limited := strings.Replace(string(shipped), "{provisioner: shared,", "{provisioner: shared, max_binding_ttl: "+ttl+",", 1)
	if err := os.WriteFile(path, []byte(limited), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Bindings that expire while no broker runs end when one starts, and so do those that a broker was ending when it died.
// After a restore of PostgreSQL, recover ends the expired bindings that it contains.
func TestFaultExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	server := servers.Any(t)
	private := testdrive.Private(t, server.Flavour)
	env := testdrive.Environment(t, private)
	env["CATALOG"] = limitedCatalog(t, "30d")
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	i := p.OwnInstance(t, "shared-small")
	i.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	testdrive.ExpectRefusal(t, i.NewBinding().Bind(t, body{"parameters": body{"ttl": "31d"}}), 400, `"ttl"`, "30d")
	b := i.NewBinding()
	r := b.Bind(t, nil).Expect(t, http.StatusCreated)
	if at, _ := bindingTimes(t, r); time.Until(at) < 29*24*time.Hour {
		t.Errorf("a binding without ttl expires at %v", at)
	}
	restored, c := i.Bound(t, body{"parameters": body{"ttl": "8h"}})
	var listed []struct {
		ExpiresAt time.Time `json:"expires_at"`
	}
	p.Operator(env).Read(t, &listed, "bindings", i.ID)
	if len(listed) != 2 || listed[0].ExpiresAt.IsZero() || listed[1].ExpiresAt.IsZero() {
		t.Errorf("the list of bindings has %+v", listed)
	}
	faults.Decide(func(_ int, point string) testdrive.Word {
		if point == "expire: end account: done" {
			return testdrive.Die
		}
		return testdrive.GoOn
	})
	half, _ := i.Bound(t, body{"parameters": body{"ttl": "1s"}})
	missed, gone := i.Bound(t, body{"parameters": body{"ttl": "20s"}})
	p.Wait(t)
	faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	tasks := testdrive.OpenTasks(t, env)
	testdrive.Eventually(t, limits.Stuck, "it has expired", func() (over bool) {
		err := tasks.Pool.QueryRow(t.Context(), "SELECT count(*) = 2 FROM binding WHERE expires_at < now()").Scan(&over)
		return err == nil && over
	})
	env["CATALOG"] = limitedCatalog(t, "1h")
	p = testdrive.StartPlatform(t, private, env)
	i.Platform, restored.Platform, missed.Platform, half.Platform = p, p, p, p
	successor := i.NewBinding().Bind(t, body{"predecessor_binding_id": restored.BindingID}).Expect(t, http.StatusCreated)
	if at, _ := bindingTimes(t, successor); time.Until(at) > time.Hour {
		t.Errorf("after the maximum was lowered, the successor of a binding with 8h expires at %v", at)
	}
	testdrive.Eventually(t, limits.Stuck, "it has ended", func() bool { return !testdrive.AccountExists(t, p, gone.Username) })
	p.AwaitLog(t, `"msg":"a service binding has expired"`)
	testdrive.ExpectEmpty(t, missed.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, half.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, half.Unbind(t), http.StatusGone)

	backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
	i.NewBinding().Bind(t, nil).Expect(t, http.StatusCreated) // which PostgreSQL will not know
	stop(t, p)
	testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
	tasks.Exec(t, "UPDATE binding SET expires_at = now() WHERE id = '"+restored.BindingID+"'")
	p = testdrive.StartPlatform(t, private, env)
	restored.Platform = p
	expectHeld(t, p, "loaded from a dump")
	if shown := runRecover(t, env, 0, "--apply"); !strings.Contains(shown, "expired since the backup") {
		t.Errorf("recover says\n%s", shown)
	}
	if testdrive.AccountExists(t, p, c.Username) {
		t.Error("the account is still there")
	}
	testdrive.ExpectEmpty(t, restored.Unbind(t), http.StatusOK)
	testdrive.ExpectEmpty(t, restored.Unbind(t), http.StatusGone)
}

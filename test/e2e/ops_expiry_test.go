package e2e

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

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
func TestExpiredMeanwhile(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		private := testdrive.Private(t, server.Flavour)
		env := testdrive.Environment(t, private)
		env["CATALOG"] = limitedCatalog(t, "30d")
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		i := p.ownInstance(t, "shared-small")
		i.provision(t, now, nil).Expect(t, http.StatusCreated)
		expectRefusal(t, i.newBinding().bind(t, body{"parameters": body{"ttl": "31d"}}), 400, `"ttl"`, "30d")
		b := i.newBinding()
		r := b.bind(t, nil).Expect(t, http.StatusCreated)
		if at, _ := bindingTimes(t, r); time.Until(at) < 29*24*time.Hour {
			t.Errorf("a binding without ttl expires at %v", at)
		}
		restored, c := i.bound(t, body{"parameters": body{"ttl": "8h"}})
		var listed []struct {
			ExpiresAt time.Time `json:"expires_at"`
		}
		p.operator(env).read(t, &listed, "bindings", i.id)
		if len(listed) != 2 || listed[0].ExpiresAt.IsZero() || listed[1].ExpiresAt.IsZero() {
			t.Errorf("the list of bindings has %+v", listed)
		}
		faults.Decide(func(_ int, point string) testdrive.Word {
			if point == "expire: end account: done" {
				return testdrive.Die
			}
			return testdrive.GoOn
		})
		half, _ := i.bound(t, body{"parameters": body{"ttl": "1s"}})
		missed, gone := i.bound(t, body{"parameters": body{"ttl": "20s"}})
		p.Wait(t)
		faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
		tasks := openTasks(t, env)
		testdrive.Eventually(t, testdrive.Patience, "it has expired", func() (over bool) {
			err := tasks.pool.QueryRow(t.Context(), "SELECT count(*) = 2 FROM binding WHERE expires_at < now()").Scan(&over)
			return err == nil && over
		})
		env["CATALOG"] = limitedCatalog(t, "1h")
		p = startPlatform(t, private, env)
		i.platform, restored.platform, missed.platform, half.platform = p, p, p, p
		successor := i.newBinding().bind(t, body{"predecessor_binding_id": restored.bindingID}).Expect(t, http.StatusCreated)
		if at, _ := bindingTimes(t, successor); time.Until(at) > time.Hour {
			t.Errorf("after the maximum was lowered, the successor of a binding with 8h expires at %v", at)
		}
		testdrive.Eventually(t, testdrive.Patience, "it has ended", func() bool { return !accountExists(t, p, gone.Username) })
		p.AwaitLog(t, `"msg":"a service binding has expired"`)
		expectEmpty(t, missed.unbind(t), http.StatusOK)
		expectEmpty(t, half.unbind(t), http.StatusOK)
		expectEmpty(t, half.unbind(t), http.StatusGone)

		backup := testdrive.DumpPostgres(t, env["DATABASE_URL"])
		i.newBinding().bind(t, nil).Expect(t, http.StatusCreated) // which PostgreSQL will not know
		stop(t, p)
		testdrive.RestorePostgres(t, env["DATABASE_URL"], backup)
		tasks.exec(t, "UPDATE binding SET expires_at = now() WHERE id = '"+restored.bindingID+"'")
		p = startPlatform(t, private, env)
		restored.platform = p
		expectHeld(t, p, "loaded from a dump")
		if shown := runRecover(t, env, 0, "--apply"); !strings.Contains(shown, "expired since the backup") {
			t.Errorf("recover says\n%s", shown)
		}
		if accountExists(t, p, c.Username) {
			t.Error("the account is still there")
		}
		expectEmpty(t, restored.unbind(t), http.StatusOK)
		expectEmpty(t, restored.unbind(t), http.StatusGone)
	})
}

// While operations change instances, expired accounts are locked, even if another server does not answer.
func TestExpiryBesideSilentServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, server servers.MySQL) {
		env := testdrive.Environment(t, server)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, server, env)
		silent, well := p.makeOwn(t, "dedicated-small"), p.makeOwn(t, "shared-async")
		asked := body{"parameters": body{"ttl": "5s"}}
		for range 6 { // with ten seconds for each
			silent.bound(t, asked)
		}
		_, c := well.bound(t, asked)
		g, resizing := newGate(t, "update: limit connections: begins"), newGate(t, "update: resize: begins")
		faults.Decide(func(_ int, point string) testdrive.Word {
			g.pass(point)
			resizing.pass(point)
			return testdrive.GoOn
		})
		updated := make(chan testdrive.Response, 1)
		go func() { updated <- well.updatePlan(t, later, "shared-large") }()
		testdrive.Receive(t, g.reached, "the update has begun")
		silent.updatePlan(t, later, "dedicated-large").Expect(t, http.StatusAccepted)
		testdrive.Receive(t, resizing.reached, "the other update has begun")
		pid := testdrive.Mysqlds(t, env["LAUNCHER_DIR"])[0]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		thaw := sync.OnceFunc(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		defer thaw()
		login := connect(t, c.fields(t))
		login.SetMaxIdleConns(0)
		testdrive.Eventually(t, testdrive.Patience, "the account is locked", func() bool {
			return login.PingContext(t.Context()) != nil
		})
		g.release()
		testdrive.Receive(t, updated, "the update ends").Expect(t, http.StatusOK)
		well.remove(t)
		thaw()
		resizing.release()
		silent.remove(t)
	})
}

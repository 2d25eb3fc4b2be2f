package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker that dies while it restricts or releases accounts, or has to leave one to an operation in progress, leaves
// nothing for long: the next round completes it.
func TestQuotaIsCompletedByTheNextRound(t *testing.T) {
	t.Parallel()
	for n, point := range []string{"quota: recorded", "before: REVOKE INSERT", "after: REVOKE INSERT",
		"before: GRANT SELECT", "after: GRANT SELECT"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			all := servers.Chosen(t, servers.AllMySQL(t)) // the statements are the same for both flavours
			private := testdrive.Private(t, all[n%len(all)].Flavour)
			env := quotaEnvironment(t, private)
			faults := testdrive.NewFaults(t, env)
			victim := startPlatform(t, private, env)
			i := victim.makeOwn(t, "shared-small")
			_, first := i.bound(t, nil)
			_, second := i.bound(t, nil)
			db := first.open(t)
			releasing := strings.Contains(point, "GRANT")
			if releasing {
				overfill(t, db, quotaSmall)
				awaitRefused(t, connect(t, second.fields(t))) // a first login may be cut off
			}
			die(faults, victim, point)
			if releasing {
				exec(t, db, "DROP TABLE filler")
			} else {
				fill(t, db, 41)
			}
			victim.Wait(t)
			openTasks(t, env).exec(t, "UPDATE leader_lease SET until = now()") // nobody waits for the turn of the dead
			faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
			next := startPlatform(t, private, env)
			awaitRound(t, next)
			awaitReconciled(t, next)
			for _, c := range []credentials{first, second} {
				if releasing {
					exec(t, c.open(t), "CREATE TABLE filler (content LONGBLOB)", insertOne, "DROP TABLE filler")
				} else {
					expectRefusals(t, c.open(t))
				}
			}
			auditQuota(t, next, env, i.via(next), testdrive.Plans(t))
			expectEmpty(t, i.via(next).deprovision(t, now), http.StatusOK)
		})
	}
}

// die has a broker killed when it comes to a point.
func die(f *testdrive.Faults, victim platform, point string) {
	f.Decide(func(pid int, at string) testdrive.Word {
		if pid == victim.PID() && at == point {
			return testdrive.Die
		}
		return testdrive.GoOn
	})
}

// A bind that began before the instance exceeded its quota creates an account with write privileges, which are revoked
// soon.
func TestQuotaBindUnderWay(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := quotaEnvironment(t, private)
		faults := testdrive.NewFaults(t, env)
		p := startPlatform(t, private, env)
		i := p.makeOwn(t, "shared-small")
		_, c := i.bound(t, nil)
		reached, release := holdAt(t, faults, "before: CREATE USER")
		b := i.newBinding()
		answer := p.Begin("PUT", b.path(), b.with(nil))
		testdrive.Receive(t, reached, "the bind makes an account")
		db := c.open(t)
		overfill(t, db, quotaSmall)
		release()
		made := p.credentials(t, testdrive.Receive(t, answer, "the answer to the bind").Expect(t, http.StatusCreated))
		awaitRefused(t, made.open(t))
		expectRefusals(t, made.open(t))
		auditQuota(t, p, env, i, testdrive.Plans(t))
		expectEmpty(t, i.deprovision(t, now), http.StatusOK)
	})
}

// One broker at a time measures, and another one goes on when it is gone.
func TestQuotaReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := quotaEnvironment(t, private)
	env["QUOTA_INTERVAL"] = "2s"
	faults := testdrive.NewFaults(t, env)
	var mu sync.Mutex
	var restricted []int
	faults.Decide(func(pid int, at string) testdrive.Word {
		if at == "quota: recorded" {
			mu.Lock()
			defer mu.Unlock()
			restricted = append(restricted, pid)
		}
		return testdrive.GoOn
	})
	all := []platform{startPlatform(t, private, env), startPlatform(t, private, env), startPlatform(t, private, env)}
	i := all[0].makeOwn(t, "shared-small")
	_, c := i.bound(t, nil)
	db := c.open(t)
	overfill(t, db, quotaSmall)
	exec(t, db, "TRUNCATE filler")
	awaitAllowed(t, db)
	mu.Lock()
	if len(restricted) != 2 {
		t.Errorf("%d changes, by %v, instead of one restriction and one release", len(restricted), restricted)
	}
	mu.Unlock()
	busy := slices.IndexFunc(all, func(p platform) bool { return p.PID() == restricted[len(restricted)-1] })
	all[busy].Kill(t)
	other := all[(busy+1)%len(all)]
	overfill(t, db, quotaSmall)
	expectOver(t, i.via(other), true)
	expectEmpty(t, i.via(other).deprovision(t, now), http.StatusOK)
}

// With QUOTA_INTERVAL=0, quotas are lifted.
func TestQuotaOff(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := quotaEnvironment(t, private)
		p := startPlatform(t, private, env)
		i := p.makeOwn(t, "shared-small")
		_, c := i.bound(t, nil)
		db := c.open(t)
		overfill(t, db, quotaSmall)
		p.Kill(t)
		env["QUOTA_INTERVAL"] = "0"
		p = startPlatform(t, private, env)
		awaitAllowed(t, db)
		fill(t, db, 2)
		reported, _ := field(i.via(p).fetch(t).Body, "metadata", "attributes").(map[string]any)
		for name := range reported {
			if strings.HasPrefix(name, "storage") {
				t.Errorf("the platform is told of measurements that are not made any more: %v", reported)
			}
		}
		expectEmpty(t, i.via(p).deprovision(t, now), http.StatusOK)
	})
}

func TestQuotaOfADedicatedServer(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := quotaEnvironment(t, s)
		p := startPlatform(t, s, env)
		i := p.makeOwn(t, "dedicated-small")
		_, c := i.bound(t, nil)
		db := c.open(t)
		overfill(t, db, quotaDedicated)
		expectOver(t, i, true)
		_, made := i.bound(t, nil)
		expectRefusals(t, made.open(t))
		exec(t, made.open(t), "DELETE FROM filler")
		awaitAllowed(t, db)
		expectOver(t, i, false)

		for _, pid := range testdrive.Mysqlds(t, env["LAUNCHER_DIR"]) {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			defer func() { _ = syscall.Kill(pid, syscall.SIGCONT) }()
		}
		p.AwaitLog(t, "measuring all databases of a server failed")
		const measured = `mysql_broker_quota_measurement_timestamp_seconds{server=""}`
		hanging := p.Scrape(t)[measured]
		for _, pid := range testdrive.Mysqlds(t, env["LAUNCHER_DIR"]) {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		testdrive.Eventually(t, quotaTime, "the server is measured again", func() bool {
			return p.Scrape(t)[measured] > hanging
		})
		i.remove(t)
	})
}

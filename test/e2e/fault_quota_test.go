package e2e

import (
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker that dies while it restricts or releases accounts, or has to leave one to an operation in progress, leaves
// nothing for long: the next round completes it.
func TestFaultQuotaIsCompletedByTheNextRound(t *testing.T) {
	t.Parallel()
	for n, point := range []string{"quota: recorded", "before: REVOKE INSERT", "after: REVOKE INSERT",
		"before: GRANT SELECT", "after: GRANT SELECT"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			all := servers.Chosen(t, servers.AllMySQL(t)) // the statements are the same for both flavours
			private := testdrive.Private(t, all[n%len(all)].Flavour)
			env := testdrive.QuotaEnvironment(t, private)
			faults := testdrive.NewFaults(t, env)
			victim := testdrive.StartPlatform(t, private, env)
			i := victim.MakeOwn(t, "shared-small")
			_, first := i.Bound(t, nil)
			_, second := i.Bound(t, nil)
			db := first.Open(t)
			releasing := strings.Contains(point, "GRANT")
			if releasing {
				overfill(t, db, testdrive.QuotaSmall)
				awaitRefused(t, testdrive.Connect(t, second.Fields(t))) // a first login may be cut off
			}
			die(faults, victim, point)
			if releasing {
				testdrive.Exec(t, db, "DROP TABLE filler")
			} else {
				testdrive.Fill(t, db, 41)
			}
			victim.Wait(t)
			testdrive.OpenTasks(t, env).Exec(t, "UPDATE leader_lease SET until = now()") // nobody waits for the turn of the dead
			faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
			next := testdrive.StartPlatform(t, private, env)
			awaitRound(t, next)
			awaitReconciled(t, next)
			for _, c := range []testdrive.Credentials{first, second} {
				if releasing {
					testdrive.Exec(t, c.Open(t), "CREATE TABLE filler (content LONGBLOB)", insertOne, "DROP TABLE filler")
				} else {
					expectRefusals(t, c.Open(t))
				}
			}
			auditQuota(t, next, env, i.Via(next), testdrive.Plans(t))
			testdrive.ExpectEmpty(t, i.Via(next).Deprovision(t, testdrive.Sync), http.StatusOK)
		})
	}
}

// die has a broker killed when it comes to a point.
func die(f *testdrive.Faults, victim testdrive.Platform, point string) {
	f.Decide(func(pid int, at string) testdrive.Word {
		if pid == victim.PID() && at == point {
			return testdrive.Die
		}
		return testdrive.GoOn
	})
}

// A bind that began before the instance exceeded its quota creates an account with write privileges, which are revoked
// soon.
func TestFaultQuotaBindUnderWay(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, private)
	faults := testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, private, env)
	i := p.MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	reached, release := testdrive.HoldAt(t, faults, "before: CREATE USER")
	b := i.NewBinding()
	answer := p.Begin("PUT", b.Path(), b.With(nil))
	testdrive.Receive(t, reached, "the bind makes an account")
	db := c.Open(t)
	overfill(t, db, testdrive.QuotaSmall)
	release()
	made := p.Credentials(t, testdrive.Receive(t, answer, "the answer to the bind").Expect(t, http.StatusCreated))
	awaitRefused(t, made.Open(t))
	expectRefusals(t, made.Open(t))
	auditQuota(t, p, env, i, testdrive.Plans(t))
	testdrive.ExpectEmpty(t, i.Deprovision(t, testdrive.Sync), http.StatusOK)
}

// One broker at a time measures, and another one goes on when it is gone.
func TestFaultQuotaReplicas(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	private := testdrive.Private(t, s.Flavour)
	env := testdrive.QuotaEnvironment(t, private)
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
	all := []testdrive.Platform{testdrive.StartPlatform(t, private, env), testdrive.StartPlatform(t, private, env), testdrive.StartPlatform(t, private, env)}
	i := all[0].MakeOwn(t, "shared-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	overfill(t, db, testdrive.QuotaSmall)
	testdrive.Exec(t, db, "TRUNCATE filler")
	awaitAllowed(t, db)
	mu.Lock()
	if len(restricted) != 2 {
		t.Errorf("%d changes, by %v, instead of one restriction and one release", len(restricted), restricted)
	}
	mu.Unlock()
	busy := slices.IndexFunc(all, func(p testdrive.Platform) bool { return p.PID() == restricted[len(restricted)-1] })
	all[busy].Kill(t)
	other := all[(busy+1)%len(all)]
	overfill(t, db, testdrive.QuotaSmall)
	expectOver(t, i.Via(other), true)
	testdrive.ExpectEmpty(t, i.Via(other).Deprovision(t, testdrive.Sync), http.StatusOK)
}

package slow

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFrozenServerDelaysOnlyItself stops a shared server's process, which then accepts connections and does not answer.
// More deletions wait for it than the broker has workers, and requests too. Operations elsewhere continue; once the
// process continues, so do the deletions.
func TestFrozenServerDelaysOnlyItself(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, well servers.MySQL) {
		const deletions, binds = 20, 6 // of each of 3 instances; the broker has 16 workers, and 16 sessions on each server
		frozen := testdrive.StartCrashable(t, well.Flavour)
		p, used := startOnFrozen(t, well, frozen, 3, deletions)
		bound, _ := used[0].Bound(t, nil)

		thaw := frozen.Freeze(t)
		doomed := p.doomed
		operations := make([]string, len(doomed))
		for n, i := range doomed {
			operations[n] = i.Deprovision(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
		}
		var waiting []<-chan testdrive.Response
		for _, i := range used {
			for range binds {
				b := i.NewBinding()
				waiting = append(waiting, p.Begin("PUT", b.Path(), b.With(nil)))
			}
		}
		waiting = append(waiting, p.Begin("DELETE", bound.Deletion(bound.Path(), testdrive.Sync), nil))

		// Were any of these to wait for the frozen server, they would wait until it goes on.
		i := p.MakeOwn(t, "dedicated-small")
		shared := p.MakeOwn(t, "shared-small")
		_, c := shared.Bound(t, nil)
		if c.Port != well.Port {
			t.Errorf("the database is on port %d", c.Port)
		}
		c.Open(t)
		testdrive.ExpectEmpty(t, shared.Deprovision(t, testdrive.Sync), http.StatusOK)
		i.Remove(t)

		for _, answers := range waiting {
			testdrive.ExpectRefusal(t, testdrive.Receive(t, answers, "a request on the frozen server is answered"),
				http.StatusServiceUnavailable, ".")
		}
		testdrive.Eventually(t, limits.Stuck, "a deletion says what it waits for", func() bool {
			return slices.ContainsFunc(operations, func(operation string) bool {
				r := doomed[slices.Index(operations, operation)].Poll(t, "?operation="+operation).Expect(t, http.StatusOK)
				if state := r.String("state"); state != "in progress" {
					t.Fatalf("a deletion on the frozen server %s", state)
				}
				return strings.Contains(r.String("description"), "does not answer")
			})
		})
		thaw()
		for n, i := range doomed {
			i.Await(t, operations[n])
		}
		for _, i := range used {
			_, c := i.Bound(t, nil)
			c.Open(t)
		}
	})
}

// frozenPlatform is a broker with two shared servers, of which one is to be frozen.
type frozenPlatform struct {
	testdrive.Platform
	doomed []testdrive.Instance // on that one, to be deleted
}

// startOnFrozen has instances made on a server that is to be frozen, so many to be used and so many to be deleted, and
// then starts a broker that has another server too.
func startOnFrozen(t *testing.T, well servers.MySQL, frozen testdrive.Crashable,
	held, deletions int) (p frozenPlatform, used []testdrive.Instance) {
	t.Helper()
	env := testdrive.Environment(t, well)
	configure := func(shared ...map[string]any) testdrive.Platform {
		text, err := json.Marshal(shared)
		if err != nil {
			t.Fatal(err)
		}
		env["MYSQL_SERVERS"] = string(text)
		return testdrive.StartPlatform(t, well, env)
	}
	first := configure(testdrive.Described("frozen", frozen.MySQL))
	for range held {
		i := first.MakeOwn(t, "shared-small")
		used = append(used, i)
	}
	for range deletions {
		i := first.MakeOwn(t, "shared-async")
		p.doomed = append(p.doomed, i)
	}
	first.Kill(t)
	p.Platform = configure(testdrive.Described("frozen", frozen.MySQL), testdrive.Described("well", well))
	for n := range p.doomed {
		p.doomed[n] = p.doomed[n].Via(p.Platform)
	}
	for n := range used {
		used[n] = used[n].Via(p.Platform)
	}
	return p, used
}

package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A broker is killed in the middle of a deletion, and in the middle of an undelete. The next one completes both, and
// nothing is lost.
func TestFaultUndeleteByKilledBrokers(t *testing.T) {
	t.Parallel()
	for plan, points := range map[string][]string{
		"shared-async":    {"deprovision: end accounts: done", "provision: revive accounts: done"},
		"dedicated-small": {"suspend: recorded", "launch: resumed"},
	} {
		t.Run(plan, func(t *testing.T) {
			t.Parallel()
			s := servers.Any(t)
			env := testdrive.Environment(t, s)
			env["CATALOG"] = catalogRetaining(t)
			faults := testdrive.NewFaults(t, env)
			p := testdrive.StartPlatform(t, s, env)
			i := p.OwnInstance(t, plan)
			i.Create(t, cf(nil), http.StatusCreated)
			_, app := i.Bound(t, nil)
			testdrive.Exec(t, app.Open(t), shop...)
			was := shopState(t, app.Open(t))

			for _, point := range points {
				reached, release := testdrive.HoldAt(t, faults, point)
				begin, ended := i.Deprovision, http.StatusGone
				if point == points[1] {
					ended = http.StatusOK
					begin = func(t *testing.T, query string) testdrive.Response {
						return i.Provision(t, query, cf(body{"parameters": body{"undelete": i.ID}}))
					}
				}
				operation := begin(t, testdrive.Async).Expect(t, http.StatusAccepted).String("operation")
				testdrive.Receive(t, reached, "the broker comes to "+point)
				p.Kill(t)
				release()
				testdrive.ExpireLeases(t, testdrive.OpenTasks(t, env).Pool)
				p = testdrive.StartPlatform(t, s, env)
				i = i.Via(p)
				testdrive.Eventually(t, testdrive.TakeoverTime, "the next broker completes what the first one began", func() bool {
					r := i.Poll(t, "?operation="+operation)
					return r.Status == http.StatusGone || r.String("state") == "succeeded"
				})
				if r := i.Fetch(t); (r.Status == http.StatusOK) != (ended == http.StatusOK) {
					t.Fatalf("after %s: %d %s", point, r.Status, r.Raw)
				}
				expectHealthy(t, env)
			}
			_, app = i.Bound(t, nil)
			if is := shopState(t, app.Open(t)); !slices.Equal(is, was) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
			}
		})
	}
}

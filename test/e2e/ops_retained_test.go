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

// retained is what an operator's list shows.
type retained struct {
	ID, Name   string
	InstanceID string `json:"instance_id"`
	AdoptedBy  string `json:"adopted_by"`
}

func (o operator) retained(t *testing.T) (all []retained) {
	t.Helper()
	o.read(t, &all, "retained")
	return all
}

// An undelete that fails leaves the data for the next one. Of two at once, one gets them. An operator drops them.
func TestRetainedData(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := testdrive.Environment(t, s)
	env["CATALOG"] = catalogRetaining(t)
	faults := testdrive.NewFaults(t, env)
	p := startPlatform(t, s, env)
	o := p.operator(env)
	i := p.ownInstance(t, "shared-small")
	i.create(t, cf(nil), http.StatusCreated)
	_, app := i.bound(t, nil)
	exec(t, app.open(t), shop...)
	was := shopState(t, app.open(t))
	i.delete(t)
	all := o.retained(t)
	if len(all) != 1 || all[0].InstanceID != i.id || all[0].Name != "shop" || all[0].AdoptedBy != "" {
		t.Fatalf("retained: %+v", all)
	}

	back := cf(body{"parameters": body{"undelete": i.id}})
	faults.Decide(func(_ int, point string) testdrive.Word {
		if point == "provision: revive accounts: begins" {
			return testdrive.Fail
		}
		return testdrive.GoOn
	})
	if r := p.ownInstance(t, "shared-small").provision(t, now, back); r.Status != http.StatusServiceUnavailable {
		t.Errorf("an undelete that fails: %d %s", r.Status, r.Raw)
	}
	if left := o.retained(t); !slices.Equal(left, all) {
		t.Errorf("after it, retained: %+v", left)
	}
	faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })

	rivals := []instance{p.ownInstance(t, "shared-small"), p.ownInstance(t, "shared-large")}
	var winner instance
	var mu sync.Mutex
	var asking sync.WaitGroup
	for _, rival := range rivals {
		asking.Go(func() {
			r, err := rival.Send("PUT", rival.path(), rival.provisionBody(back), nil)
			switch {
			case err == nil && r.Status == http.StatusCreated:
				mu.Lock()
				defer mu.Unlock()
				if winner.id != "" {
					t.Error("both got the data")
				}
				winner = rival
			case err != nil || r.Status != http.StatusBadRequest || !strings.Contains(r.Raw, "just now") &&
				!strings.Contains(r.Raw, "no deleted service instance"):
				t.Errorf("the other one: %v, %d %s", err, r.Status, r.Raw)
			}
		})
	}
	asking.Wait()
	if winner.id == "" {
		t.Fatal("nobody got the data")
	}
	_, app = winner.bound(t, nil)
	if is := shopState(t, app.open(t)); !slices.Equal(is, was) {
		t.Errorf("before:\n%s\nafter:\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
	}

	winner.delete(t)
	if all = o.retained(t); len(all) != 1 {
		t.Fatalf("retained: %+v", all)
	}
	o.refuse(t, "nothing is retained", "retained", "purge", "r_none")
	if entries := o.audit(t, "--action", "purge"); len(entries) > 0 {
		t.Errorf("a purge of nothing is recorded: %+v", entries)
	}

	// Its database is lost.
	exec(t, p.admin(t), "DROP DATABASE `"+app.Database+"`")
	found := runDoctor(t, env).Expect(t, 1).Stdout
	if !strings.Contains(found, "missing") || !strings.Contains(found, "retained purge "+all[0].ID) {
		t.Errorf("the doctor says %s", found)
	}
	lost := rivals[0].provision(t, now, cf(body{"parameters": body{"undelete": winner.id}}))
	if lost.Status < 400 || !strings.Contains(lost.String("description"), "not on their server any more") {
		t.Errorf("an undelete of what was lost: %d %s", lost.Status, lost.Raw)
	}
	o.run(t, 0, "retained", "purge", all[0].ID)
	if entries := o.audit(t, "--action", "purge", "--instance", winner.id); len(entries) != 1 ||
		entries[0].Object != all[0].ID || entries[0].Platform != "operator" {
		t.Errorf("the purge is recorded as %+v", entries)
	}
	testdrive.Eventually(t, takeoverTime, "the data are dropped", func() bool { return len(o.retained(t)) == 0 })
	expectNoDatabase(t, p, app.Database)
	rivals[0].provision(t, now, cf(body{"parameters": body{"undelete": winner.id}})).Expect(t, http.StatusBadRequest)
	expectHealthy(t, env)
	var counted int
	openTasks(t, env).scan(t, &counted, "SELECT coalesce(sum(instances), 0) FROM server")
	if counted != 0 {
		t.Errorf("the server is recorded to hold %d instances", counted)
	}
}

// A broker is killed in the middle of a deletion, and in the middle of an undelete. The next one completes both, and
// nothing is lost.
func TestUndeleteByKilledBrokers(t *testing.T) {
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
			p := startPlatform(t, s, env)
			i := p.ownInstance(t, plan)
			i.create(t, cf(nil), http.StatusCreated)
			_, app := i.bound(t, nil)
			exec(t, app.open(t), shop...)
			was := shopState(t, app.open(t))

			for _, point := range points {
				reached, release := holdAt(t, faults, point)
				begin, ended := i.deprovision, http.StatusGone
				if point == points[1] {
					ended = http.StatusOK
					begin = func(t *testing.T, query string) testdrive.Response {
						return i.provision(t, query, cf(body{"parameters": body{"undelete": i.id}}))
					}
				}
				operation := begin(t, later).Expect(t, http.StatusAccepted).String("operation")
				testdrive.Receive(t, reached, "the broker comes to "+point)
				p.Kill(t)
				release()
				testdrive.ExpireLeases(t, openTasks(t, env).pool)
				p = startPlatform(t, s, env)
				i = i.via(p)
				testdrive.Eventually(t, takeoverTime, "the next broker completes what the first one began", func() bool {
					r := i.poll(t, "?operation="+operation)
					return r.Status == http.StatusGone || r.String("state") == "succeeded"
				})
				if r := i.fetch(t); (r.Status == http.StatusOK) != (ended == http.StatusOK) {
					t.Fatalf("after %s: %d %s", point, r.Status, r.Raw)
				}
				expectHealthy(t, env)
			}
			_, app = i.bound(t, nil)
			if is := shopState(t, app.open(t)); !slices.Equal(is, was) {
				t.Errorf("before:\n%s\nafter:\n%s", strings.Join(was, "\n"), strings.Join(is, "\n"))
			}
		})
	}
}

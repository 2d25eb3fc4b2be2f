package e2e

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// outageAnswerTime bounds every response while PostgreSQL does not give any, to less than a platform waits. The store's
// own bounds are 5 to 10 s; a busy machine adds to them.
const outageAnswerTime = 50 * time.Second

// PostgreSQL is away for longer than a lease while one operation runs. Requests are answered meanwhile, no worker
// continues without a lease, and the operation ends once PostgreSQL is back.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	// What matters is PostgreSQL, whatever flavour the servers are of.
	all := servers.Chosen(t, servers.AllMySQL(t))
	t.Run("frozen", func(t *testing.T) {
		t.Parallel()
		outlastPostgres(t, all[0], func(t *testing.T, pg *testdrive.Postgres) func() {
			pg.Freeze(t)
			return func() { pg.Thaw(t) }
		})
	})
	t.Run("killed", func(t *testing.T) {
		t.Parallel()
		outlastPostgres(t, all[len(all)-1], func(t *testing.T, pg *testdrive.Postgres) func() {
			pg.Kill(t)
			return func() { pg.Start(t) }
		})
	})
}

func outlastPostgres(t *testing.T, s servers.MySQL, outage func(*testing.T, *testdrive.Postgres) (end func())) {
	pg := testdrive.StartPostgres(t)
	env := testdrive.Environment(t, s)
	env["DATABASE_URL"] = pg.URL
	brokers := []platform{startPlatform(t, s, env), startPlatform(t, s, env)}
	dedicated := brokers[0].ownInstance(t, "dedicated-small")
	idle := brokers[0].makeOwn(t, "shared-small")
	release := brokers[0].holdLaunches(t)
	operation := dedicated.begin(t)
	brokers[0].awaitDescription(t, dedicated, operation)

	end := outage(t, pg)
	began := time.Now()
	for _, p := range brokers {
		expectUnready(t, p)
	}
	testdrive.Eventually(t, testdrive.Patience, "the outage outlasts the lease", func() bool {
		expectOutageAnswers(t, brokers, idle)
		return time.Since(began) > outlastTime
	})
	brokers[0].AwaitLog(t, `"error":"record the bind: store: PostgreSQL is unavailable: `)
	release()
	if running := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(running) > 0 {
		t.Errorf("servers were started without a lease: %v", running)
	}
	end()
	for _, p := range brokers {
		testdrive.Eventually(t, testdrive.Patience, "the broker is ready again", func() bool {
			return p.Do(t, "GET", "/readyz", nil).Status == http.StatusOK
		})
	}
	expectService(t, brokers)
	dedicated.await(t, operation)
	if running := testdrive.Mysqlds(t, env["LAUNCHER_DIR"]); len(running) != 1 {
		t.Errorf("processes of one server: %v", running)
	}
	_, c := dedicated.bound(t, nil)
	if n := read[int](t, c.open(t), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'db\\_%'"); n != 1 {
		t.Errorf("%d databases on the dedicated server", n)
	}
	dedicated.remove(t)
	idle.deprovision(t, now).Expect(t, http.StatusOK)
	expectNoProcess(t, env["LAUNCHER_DIR"])
}

func expectUnready(t *testing.T, p platform) {
	t.Helper()
	p.Do(t, "GET", "/healthz", nil).Expect(t, http.StatusOK)
	r := p.Do(t, "GET", "/readyz", nil).Expect(t, http.StatusServiceUnavailable)
	if r.String("postgresql") != "unreachable" {
		t.Errorf("readyz says %s", r.Raw)
	}
}

// expectOutageAnswers sends one request of each kind to each broker, all at once.
func expectOutageAnswers(t *testing.T, brokers []platform, known instance) {
	t.Helper()
	var asked sync.WaitGroup
	for _, p := range brokers {
		i, fresh := known.via(p), p.ownInstance(t, "shared-small")
		b := i.newBinding()
		for _, q := range []struct {
			method, path string
			fields       body
		}{
			{"PUT", fresh.path(), fresh.provisionBody(nil)},
			{"GET", i.path(), nil},
			{"GET", i.path() + "/last_operation", nil},
			{"PATCH", i.path(), i.with(nil)},
			{"PUT", b.path(), b.with(nil)},
			{"GET", b.path(), nil},
			{"DELETE", b.deletion(b.path(), now), nil},
			{"DELETE", i.deletion(i.path(), now), nil},
		} {
			asked.Go(func() {
				since := time.Now()
				r, err := p.Send(q.method, q.path, q.fields, nil)
				if took := time.Since(since); took > outageAnswerTime {
					t.Errorf("%s %s was answered after %v", q.method, q.path, took)
				}
				if err != nil || r.Status != http.StatusServiceUnavailable || r.Header.Get("Retry-After") == "" ||
					r.String("description") != "The service broker cannot reach its own database just now. "+
						"Databases and apps are not affected. Try again in a minute, or tell your operator." {
					t.Errorf("%s %s: %v, status %d, Retry-After %q: %s", q.method, q.path, err, r.Status,
						r.Header.Get("Retry-After"), r.Raw)
				}
			})
		}
	}
	asked.Wait()
}

// expectService fails the test unless each of many requests at once is carried out.
func expectService(t *testing.T, brokers []platform) {
	t.Helper()
	var asked sync.WaitGroup
	for n := range 20 {
		asked.Go(func() { brokers[n%len(brokers)].makeAndDelete(t) })
	}
	asked.Wait()
}

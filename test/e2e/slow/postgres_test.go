package slow

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// outageAnswerTime bounds every response while PostgreSQL does not give any, to less than a platform waits. The store's
// own bounds are 5 to 10 s.
const outageAnswerTime = 50 * time.Second

// PostgreSQL hangs for longer than a lease while one operation runs. Requests are answered meanwhile, no worker continues
// without a lease, and the operation ends once PostgreSQL is back. test/ha kills it.
func TestPostgresOutage(t *testing.T) {
	t.Parallel()
	s := servers.Any(t) // what matters is PostgreSQL
	pg := testdrive.StartPostgres(t)
	env := testdrive.Environment(t, s)
	env["ANSWER_TIMEOUT"] = "2s" // some servers do not respond
	env["DATABASE_URL"] = pg.URL
	brokers := []testdrive.Platform{testdrive.StartPlatform(t, s, env), testdrive.StartPlatform(t, s, env)}
	dedicated := brokers[0].OwnInstance(t, "dedicated-small")
	idle := brokers[0].MakeOwn(t, "shared-small")
	release := brokers[0].HoldLaunches(t)
	operation := dedicated.BeginProvision(t)
	brokers[0].AwaitDescription(t, dedicated, operation)

	pg.Freeze(t)
	began := time.Now()
	for _, p := range brokers {
		p.Do(t, "GET", "/healthz", nil).Expect(t, http.StatusOK)
		r := p.Do(t, "GET", "/readyz", nil).Expect(t, http.StatusServiceUnavailable)
		assert.Equal(t, "unreachable", r.String("postgresql"), "readyz says %s", r.Raw)
	}
	testdrive.Eventually(t, limits.Stuck, "the outage outlasts the lease", func() bool {
		expectOutageAnswers(t, brokers, idle)
		return time.Since(began) > testdrive.OutlastTime
	})
	brokers[0].AwaitLog(t, `"error":"record the bind: store: PostgreSQL is unavailable: `)
	release()
	assert.Empty(t, testdrive.Mysqlds(t, env["LAUNCHER_DIR"]), "servers were started without a lease")
	pg.Thaw(t)
	for _, p := range brokers {
		testdrive.Eventually(t, limits.Stuck, "the broker is ready again", func() bool {
			return p.Do(t, "GET", "/readyz", nil).Status == http.StatusOK
		})
	}
	expectService(t, brokers)
	dedicated.Await(t, operation)
	assert.Len(t, testdrive.Mysqlds(t, env["LAUNCHER_DIR"]), 1, "processes of one server")
	_, c := dedicated.Bound(t, nil)
	n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name LIKE 'db\\_%'")
	assert.Equal(t, 1, n, "%d databases on the dedicated server", n)
	dedicated.Remove(t)
	idle.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
}

// expectOutageAnswers sends one request of each kind to each broker, all at once.
func expectOutageAnswers(t *testing.T, brokers []testdrive.Platform, known testdrive.Instance) {
	t.Helper()
	var asked sync.WaitGroup
	for _, p := range brokers {
		i, fresh := known.Via(p), p.OwnInstance(t, "shared-small")
		b := i.NewBinding()
		for _, q := range []struct {
			method, path string
			fields       body
		}{
			{"PUT", fresh.Path(), fresh.ProvisionBody(nil)},
			{"GET", i.Path(), nil},
			{"GET", i.Path() + "/last_operation", nil},
			{"PATCH", i.Path(), i.With(nil)},
			{"PUT", b.Path(), b.With(nil)},
			{"GET", b.Path(), nil},
			{"DELETE", b.Deletion(b.Path(), testdrive.Sync), nil},
			{"DELETE", i.Deletion(i.Path(), testdrive.Sync), nil},
		} {
			asked.Go(func() {
				since := limits.Watch()
				r, err := p.Send(q.method, q.path, q.fields, nil)
				since.Done(t, q.method+" "+q.path+" is answered", outageAnswerTime)
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
func expectService(t *testing.T, brokers []testdrive.Platform) {
	t.Helper()
	var asked sync.WaitGroup
	for n := range 20 {
		asked.Go(func() { makeAndDelete(t, brokers[n%len(brokers)]) })
	}
	asked.Wait()
}

// makeAndDelete checks that each of several requests for a new instance succeeds.
func makeAndDelete(t *testing.T, p testdrive.Platform) {
	i := p.OwnInstance(t, "shared-small")
	for _, q := range []struct {
		method, path string
		body         any
		status       int
	}{
		{"PUT", i.Path(), i.ProvisionBody(nil), http.StatusCreated},
		{"GET", i.Path(), nil, http.StatusOK},
		{"DELETE", i.Deletion(i.Path(), testdrive.Sync), nil, http.StatusOK},
	} {
		since := time.Now()
		if r, err := p.Send(q.method, q.path, q.body, nil); err != nil || r.Status != q.status {
			t.Errorf("%s, after %v: %v, status %d: %s", q.method, time.Since(since), err, r.Status, r.Raw)
		}
	}
}

// When PostgreSQL refuses further connections, the broker serves all requests with the connections that it has.
func TestPostgresTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	server := servers.Any(t) // what matters is PostgreSQL
	pg := testdrive.StartPostgres(t)
	env := testdrive.Environment(t, server)
	env["DATABASE_URL"] = pg.URL
	p := testdrive.StartPlatform(t, server, env)
	warm := p.OwnInstance(t, "shared-small") // which gives it some connections
	warm.Provision(t, testdrive.Sync, nil).Expect(t, http.StatusCreated)
	for {
		conn, err := pgx.Connect(t.Context(), pg.URL)
		if err != nil {
			var refused *pgconn.PgError
			require.True(t, errors.As(err, &refused) && refused.Code == "53300", "%v", err)
			break
		}
		defer conn.Close(context.Background())
	}
	expectService(t, []testdrive.Platform{p})
	warm.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
}

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
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

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

package e2e

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// makeAndDelete checks that each of several requests for a new instance succeeds.
func (p platform) makeAndDelete(t *testing.T) {
	i := p.ownInstance(t, "shared-small")
	for _, q := range []struct {
		method, path string
		body         any
		status       int
	}{
		{"PUT", i.path(), i.provisionBody(nil), http.StatusCreated},
		{"GET", i.path(), nil, http.StatusOK},
		{"DELETE", i.deletion(i.path(), now), nil, http.StatusOK},
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
	p := startPlatform(t, server, env)
	warm := p.ownInstance(t, "shared-small") // which gives it some connections
	warm.provision(t, now, nil).Expect(t, http.StatusCreated)
	for {
		conn, err := pgx.Connect(t.Context(), pg.URL)
		if err != nil {
			var refused *pgconn.PgError
			if !errors.As(err, &refused) || refused.Code != "53300" {
				t.Fatal(err)
			}
			break
		}
		defer conn.Close(context.Background())
	}
	var working sync.WaitGroup
	for range 20 {
		working.Go(func() { p.makeAndDelete(t) })
	}
	working.Wait()
	warm.deprovision(t, now).Expect(t, http.StatusOK)
}

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

// Brokers that are killed in the middle of their work leave the others' requests alone: their connections to PostgreSQL
// end with them, and so do the locks that they held.
func TestKilledBrokersDisturbNoOther(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		pg := testdrive.StartPostgres(t)
		env := testdrive.Environment(t, private)
		env["DATABASE_URL"] = pg.URL
		survivor := startPlatform(t, private, env)
		const clients, kills = 6, 5
		over := make(chan struct{})
		var working sync.WaitGroup
		for range clients {
			working.Go(func() { survivor.workUntil(t, over) })
		}
		for range kills {
			victims := []*testdrive.Broker{testdrive.Start(t, env), testdrive.Start(t, env)}
			var dying sync.WaitGroup
			for _, v := range victims {
				p := survivor
				p.Broker = v
				for range clients {
					dying.Go(func() { p.provisionUntilKilled(t) })
				}
			}
			time.Sleep(300 * time.Millisecond) // of their work
			for _, v := range victims {
				v.Kill(t)
			}
			dying.Wait()
		}
		close(over)
		working.Wait()
	})
}

// workUntil makes and deletes instances, and fails the test unless each request is carried out.
func (p platform) workUntil(t *testing.T, over <-chan struct{}) {
	for {
		select {
		case <-over:
			return
		default:
		}
		p.makeAndDelete(t)
	}
}

// makeAndDelete fails the test unless each request for a new instance is carried out.
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

// provisionUntilKilled asks a broker for instances until it answers no more.
func (p platform) provisionUntilKilled(t *testing.T) {
	for {
		i := p.ownInstance(t, "shared-small")
		if _, err := p.Send("PUT", i.path(), i.provisionBody(nil), nil); err != nil {
			return
		}
	}
}

// Where PostgreSQL takes no more connections, those that a broker has serve its requests, one after the other.
func TestPostgresTakesNoMoreConnections(t *testing.T) {
	t.Parallel()
	server := servers.AllMySQL(t)[0] // what matters is PostgreSQL
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

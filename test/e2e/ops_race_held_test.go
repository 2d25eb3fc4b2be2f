package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"mysql-broker/test/testdrive"
)

// An unbind that cancels a bind just as that one records its success locks the same two rows.
func raceUnbindWithEndOfBind(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	b := i.newBinding()
	at, release := c.holdAt(t, "bind: ending as succeeded")
	bound := i.Begin("PUT", b.path(), b.with(nil))
	testdrive.Receive(t, at, "a replica comes to the end of its bind")
	tx, err := c.tasks.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), "SELECT FROM task WHERE binding_id = $1 FOR UPDATE", b.bindingID); err != nil {
		t.Fatal(err)
	}
	unbound := i.via(c.replicas[1]).Begin("DELETE", b.deletion(b.path(), now), nil)
	c.awaitBlocked(t, 1)
	release()
	c.awaitBlocked(t, 2)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectOneOf(t, testdrive.Receive(t, bound, "the answer to the bind"), http.StatusUnprocessableEntity)
	expectEmpty(t, testdrive.Receive(t, unbound, "the answer to the unbind"), http.StatusOK)
	c.expectNoDeadlock(t)
	raceDeletions(t, c, i, now)
}

// A fetch during which the instance goes must not show it: the deletion, which ends in the same moment, is not in
// progress any more.
func raceFetchWithDeletion(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	tx, err := c.tasks.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	rename := func(from, to string) string {
		return "UPDATE instance SET id = '" + to + "' WHERE id = '" + from + "'"
	}
	if _, err := tx.Exec(t.Context(), "LOCK TABLE task"); err != nil {
		t.Fatal(err)
	}
	fetched := i.Begin("GET", i.path(), nil)
	c.awaitBlocked(t, 1)
	if _, err := tx.Exec(t.Context(), rename(i.id, "away")); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	expectOneOf(t, testdrive.Receive(t, fetched, "the answer to the fetch"), http.StatusNotFound)
	if _, err := c.tasks.pool.Exec(t.Context(), rename("away", i.id)); err != nil {
		t.Fatal(err)
	}
	raceDeletions(t, c, i, now)
}

// A client that goes away at any point, and comes back with the same request at another replica, gets what it asked
// for: the work went on, or is begun anew.
func raceDisconnects(t *testing.T, c cluster) {
	i := c.newInstance(t, "shared-small")
	b := i.newBinding()
	requests := []struct {
		method, path string
		body         any
		repeated     []int // how the repeat may be answered
		undo         func()
	}{
		{"PUT", i.path(), i.provisionBody(nil), []int{http.StatusOK, http.StatusCreated},
			func() { i.deprovision(t, now).Expect(t, http.StatusOK) }},
		{"PUT", b.path(), b.with(nil), []int{http.StatusOK, http.StatusCreated},
			func() { b.unbind(t).Expect(t, http.StatusOK) }},
		{"DELETE", b.deletion(b.path(), now), nil, []int{http.StatusOK, http.StatusGone},
			func() { b.bind(t, nil).Expect(t, http.StatusCreated) }},
		{"DELETE", i.deletion(i.path(), now), nil, []int{http.StatusOK, http.StatusGone},
			func() { i.provision(t, now, nil).Expect(t, http.StatusCreated) }},
	}
	for _, q := range requests {
		send := func(ctx context.Context, replica int) (testdrive.Response, error) {
			return c.replicas[replica].SendFor(ctx, q.method, q.path, q.body, nil)
		}
		for _, point := range c.points(t, func() {
			if _, err := send(t.Context(), 0); err != nil {
				t.Fatal(err)
			}
		}) {
			q.undo()
			at, release := c.holdAt(t, point)
			ctx, disconnect := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				_, err := send(ctx, 1)
				ended <- err
			}()
			testdrive.Receive(t, at, "a replica comes to "+point)
			disconnect()
			if err := testdrive.Receive(t, ended, "the end of the request"); !errors.Is(err, context.Canceled) {
				t.Errorf("%s at %q: the client did not disconnect: %v", q.method, point, err)
			}
			release()
			r, err := send(t.Context(), 2)
			if err != nil {
				t.Fatal(err)
			}
			expectOneOf(t, r, q.repeated...)
		}
	}
	expectEmpty(t, i.deprovision(t, now), http.StatusGone)
}

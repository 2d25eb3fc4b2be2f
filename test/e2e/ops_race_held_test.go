package e2e

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"mysql-broker/test/testdrive"
)

// untilSwift plays a scene in which brokers wait for locks until it took less than the 4 seconds that they have patience
// for: a busy machine may take longer. The scene tells whether it was swift, and asserts nothing if it was not.
func untilSwift(t *testing.T, scene func() (swift bool)) {
	t.Helper()
	testdrive.Eventually(t, 3*time.Minute, "brokers wait for locks no longer than they have patience for", scene)
}

// swift tells whether what waits for a lock since a time cannot have lost patience.
func swift(since time.Time) bool { return time.Since(since) < 3*time.Second }

// An unbind that cancels a bind just as that one records its success locks the same two rows.
func raceUnbindWithEndOfBind(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	untilSwift(t, func() bool {
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
		locked := time.Now()
		unbound := i.via(c.replicas[1]).Begin("DELETE", b.deletion(b.path(), now), nil)
		c.awaitBlocked(t, "^UPDATE task SET state = 'failed'", unbound)
		release()
		c.awaitBlocked(t, "^WITH locked_instance AS", bound)
		if err := tx.Rollback(t.Context()); err != nil {
			t.Fatal(err)
		}
		inTime := swift(locked)
		bind := testdrive.Receive(t, bound, "the answer to the bind")
		unbind := testdrive.Receive(t, unbound, "the answer to the unbind")
		if inTime {
			expectOneOf(t, bind, http.StatusUnprocessableEntity)
			expectEmpty(t, unbind, http.StatusOK)
		}
		return inTime
	})
	c.expectNoDeadlock(t)
	raceDeletions(t, c, i, now)
}

// raceFetch has a statement change the instance while a fetch waits in the middle, at another statement of its own for a
// table that is locked, and fails the test unless the fetch is answered with a status. Another statement undoes the change.
func raceFetch(t *testing.T, c cluster, i instance, table, waiting, change string, status int, undo string) {
	t.Helper()
	untilSwift(t, func() bool {
		tx, err := c.tasks.pool.Begin(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback(context.Background())
		if _, err := tx.Exec(t.Context(), "LOCK TABLE "+table); err != nil {
			t.Fatal(err)
		}
		locked := time.Now()
		fetched := i.Begin("GET", i.path(), nil)
		c.awaitBlocked(t, waiting, fetched)
		if _, err := tx.Exec(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if err := tx.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		inTime := swift(locked)
		answer := testdrive.Receive(t, fetched, "the answer to the fetch")
		if inTime {
			expectOneOf(t, answer, status)
		}
		if _, err := c.tasks.pool.Exec(t.Context(), undo); err != nil {
			t.Fatal(err)
		}
		return inTime
	})
}

// A fetch during which the instance goes must not show it: the deletion, which ends in the same moment, is not in
// progress any more.
func raceFetchWithDeletion(t *testing.T, c cluster) {
	i := c.provisioned(t, "shared-small")
	rename := func(from, to string) string {
		return "UPDATE instance SET id = '" + to + "' WHERE id = '" + from + "'"
	}
	raceFetch(t, c, i, "task", "^SELECT .*FROM task.*ORDER BY id DESC LIMIT 1",
		rename(i.id, "away"), http.StatusNotFound, rename("away", i.id))
	raceDeletions(t, c, i, now)
}

// A fetch during which the instance becomes ready must show it: the provision is not in progress any more.
func raceFetchWithEndOfProvision(t *testing.T, c cluster) {
	i := c.newInstance(t, "shared-async")
	at, release := c.holdAt(t, "before: CREATE DATABASE")
	operation := i.begin(t)
	testdrive.Receive(t, at, "a replica makes the database")
	set := func(state string) string {
		return "UPDATE instance SET state = '" + state + "' WHERE id = '" + i.id + "'"
	}
	raceFetch(t, c, i, "instance", `^SELECT .*FROM instance i WHERE id = \$1$`,
		set("ready"), http.StatusOK, set("creating"))
	release()
	i.await(t, operation)
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

package e2e

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/test/testdrive"
)

// TestMove moves an instance to a dedicated server and back while an application writes.
func TestMove(t *testing.T) {
	eachPlatform(t, func(t *testing.T, p platform, _ map[string]string) {
		i := p.provisioned(t, "shared-small", body{"context": cloudFoundry})
		b, old := i.bound(t, nil)
		makeObjectsAs(t, old)
		expectError(t, i.updatePlan(t, now, "dedicated-small"), "AsyncRequired")
		w, readsEnd := startWriter(t, old), startReader(t, old)
		shown := i.await(t, i.updatePlan(t, later, "dedicated-small").Expect(t, http.StatusAccepted).String("operation"))
		if says := shown[len(shown)-1]; !strings.Contains(says, "cf bind-service") {
			t.Errorf("the last description is %q", says)
		}
		readsEnd()
		written := w.stop(t)

		// The binding has another address, and the same account and password.
		moved := p.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		if moved.Port == old.Port || moved.Username != old.Username || moved.Password != old.Password {
			t.Errorf("the binding's credentials are %s@%s:%d", moved.Username, moved.Hostname, moved.Port)
		}
		expectWritten(t, written, moved)
		expectSame(t, old, moved)
		if _, err := old.open(t).Exec("INSERT INTO items (name) VALUES ('late')"); number(err) != 1142 {
			t.Errorf("a write at the old address: %v", err)
		}
		fetched := i.fetch(t).Expect(t, http.StatusOK)
		if field(fetched.Body, "metadata", "attributes", "bindings_to_renew") == nil {
			t.Errorf("the instance does not tell of its former address: %s", fetched.Raw)
		}

		// The old place goes with its bindings, and the data can be moved back.
		expectRefusal(t, i.updatePlan(t, later, "shared-small"), http.StatusUnprocessableEntity, "bindings")
		exec(t, moved.open(t), "CALL add_item()")
		b.unbind(t).Expect(t, http.StatusOK)
		b, own := i.bound(t, nil)
		i.await(t, i.updateWhenFree(t, "shared-small"))
		back := p.credentials(t, b.fetch(t).Expect(t, http.StatusOK))
		expectSame(t, own, back)
		exec(t, back.open(t), "CALL add_item()")
	})
}

// updateWhenFree begins to change the plan of an instance once the place where its data were before is removed.
func (i instance) updateWhenFree(t *testing.T, plan string) (operation string) {
	t.Helper()
	for deadline := time.Now().Add(testdrive.Patience); ; time.Sleep(100 * time.Millisecond) {
		r := i.updatePlan(t, later, plan)
		if r.Status == http.StatusAccepted {
			return r.String("operation")
		}
		if expectError(t, r, "ConcurrencyError"); time.Now().After(deadline) {
			t.Fatalf("the former place is not removed: %s", r.Raw)
		}
	}
}

// writer is an application that adds items until it may not write any more.
type writer struct {
	done  chan struct{}
	stops context.CancelFunc
	acked []string
	err   error
}

func startWriter(t *testing.T, c credentials) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{done: make(chan struct{}), stops: cancel}
	db := c.open(t)
	exec(t, db, "CREATE TABLE written (id INT PRIMARY KEY)")
	go func() {
		defer close(w.done)
		for id := 0; ctx.Err() == nil; id++ {
			_, err := db.ExecContext(ctx, "INSERT INTO written VALUES (?)", id)
			switch {
			case err == nil:
				w.acked = append(w.acked, strconv.Itoa(id))
			case number(err) == 1142:
				return
			case number(err) != 0 && number(err) != 1317:
				w.err = err
				return
			}
		}
	}()
	return w
}

// startReader reads items again and again, and returns a function that fails the test if a read was refused.
func startReader(t *testing.T, c credentials) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	db, refused := c.open(t), make(chan error, 1)
	go func() {
		defer close(refused)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			_, err := db.ExecContext(ctx, "SELECT COUNT(*) FROM items")
			switch number(err) {
			case 1044, 1045, 1142, 1143:
				refused <- err
				return
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			}
		}
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-refused; err != nil {
			t.Errorf("a read was refused: %v", err)
		}
	}
}

// goesOn ends a writer to which nothing may have happened.
func (w *writer) goesOn(t *testing.T) {
	t.Helper()
	select {
	case <-w.done:
		t.Errorf("writes were refused after %d: %v", len(w.acked), w.err)
	default:
	}
	w.stops()
	<-w.done
}

// stop returns the ids that the writer knows to be written.
func (w *writer) stop(t *testing.T) []string {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(testdrive.Patience):
		t.Error("the application may still write at the old address")
		w.stops()
		<-w.done
	}
	if w.err != nil {
		t.Errorf("a write failed: %v", w.err)
	}
	return w.acked
}

// expectWritten checks that nothing is lost that the writer knows to be written.
func expectWritten(t *testing.T, acked []string, c credentials) {
	t.Helper()
	there := map[string]bool{}
	for _, id := range readAll(t, c.open(t), "SELECT id FROM written") {
		there[id] = true
	}
	lost := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return there[id] })
	if len(acked) == 0 || len(lost) > 0 {
		t.Errorf("of %d rows that were written during the move, %q are lost", len(acked), lost)
	}
}

// expectSame compares what two databases hold.
func expectSame(t *testing.T, a, b credentials) {
	t.Helper()
	from, to := a.open(t), b.open(t)
	for _, query := range []string{
		"SELECT CONCAT(table_name, table_type) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		"SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT(id, name) FROM items ORDER BY 1", "SELECT name FROM names ORDER BY 1",
		"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(id))) FROM written",
	} {
		if was, is := readAll(t, from, query), readAll(t, to, query); !slices.Equal(was, is) {
			t.Errorf("%s: %q became %q", query, was, is)
		}
	}
}

// number is the number of a server's error, 0 for another error.
func number(err error) uint16 {
	if refusal := (*mysql.MySQLError)(nil); errors.As(err, &refusal) {
		return refusal.Number
	}
	return 0
}

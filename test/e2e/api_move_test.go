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

	"mysql-broker/test/limits"
	"mysql-broker/test/testdrive"
)

// testMove moves an instance to a dedicated server and back while an application writes.
func testMove(t *testing.T, p testdrive.Platform) {
	i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
	b, old := i.Bound(t, nil)
	testdrive.MakeObjectsAs(t, old)
	testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Sync, "dedicated-small"), "AsyncRequired")
	w, readsEnd := startWriter(t, old), startReader(t, old)
	shown := i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").Expect(t, http.StatusAccepted).String("operation"))
	if says := shown[len(shown)-1]; !strings.Contains(says, "cf bind-service") {
		t.Errorf("the last description is %q", says)
	}
	readsEnd()
	written := w.stop(t)

	// The binding has another address, and the same account and password.
	moved := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	if moved.Port == old.Port || moved.Username != old.Username || moved.Password != old.Password {
		t.Errorf("the binding's credentials are %s@%s:%d", moved.Username, moved.Hostname, moved.Port)
	}
	expectWritten(t, written, moved)
	expectSame(t, old, moved)
	if _, err := old.Open(t).Exec("INSERT INTO items (name) VALUES ('late')"); number(err) != 1142 {
		t.Errorf("a write at the old address: %v", err)
	}
	fetched := i.Fetch(t).Expect(t, http.StatusOK)
	if testdrive.Field(fetched.Body, "metadata", "attributes", "bindings_to_renew") == nil {
		t.Errorf("the instance does not tell of its former address: %s", fetched.Raw)
	}

	// The old place goes with its bindings, and the data can be moved back.
	testdrive.ExpectRefusal(t, i.UpdatePlan(t, testdrive.Async, "shared-small"), http.StatusUnprocessableEntity, "bindings")
	testdrive.Exec(t, moved.Open(t), "CALL add_item()")
	b.Unbind(t).Expect(t, http.StatusOK)
	b, own := i.Bound(t, nil)
	i.Await(t, i.UpdateWhenFree(t, "shared-small"))
	back := p.Credentials(t, b.Fetch(t).Expect(t, http.StatusOK))
	expectSame(t, own, back)
	testdrive.Exec(t, back.Open(t), "CALL add_item()")
}

// writer is an application that adds items until it may not write any more.
type writer struct {
	done  chan struct{}
	stops context.CancelFunc
	acked []string
	err   error
}

func startWriter(t *testing.T, c testdrive.Credentials) *writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &writer{done: make(chan struct{}), stops: cancel}
	db := c.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE written (id INT PRIMARY KEY)")
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
func startReader(t *testing.T, c testdrive.Credentials) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	db, refused := c.Open(t), make(chan error, 1)
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
	case <-time.After(limits.Stuck):
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
func expectWritten(t *testing.T, acked []string, c testdrive.Credentials) {
	t.Helper()
	there := map[string]bool{}
	for _, id := range testdrive.ReadAll(t, c.Open(t), "SELECT id FROM written") {
		there[id] = true
	}
	lost := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return there[id] })
	if len(acked) == 0 || len(lost) > 0 {
		t.Errorf("of %d rows that were written during the move, %q are lost", len(acked), lost)
	}
}

// expectSame compares what two databases hold.
func expectSame(t *testing.T, a, b testdrive.Credentials) {
	t.Helper()
	from, to := a.Open(t), b.Open(t)
	for _, query := range []string{
		"SELECT CONCAT(table_name, table_type) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		"SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT(id, name) FROM items ORDER BY 1", "SELECT name FROM names ORDER BY 1",
		"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(id))) FROM written",
	} {
		if was, is := testdrive.ReadAll(t, from, query), testdrive.ReadAll(t, to, query); !slices.Equal(was, is) {
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

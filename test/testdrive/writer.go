package testdrive

import (
	"context"
	"mysql-broker/test/limits"
	"slices"
	"strconv"
	"testing"
	"time"
)

// Writer is an application that adds items until it may not write any more.
type Writer struct {
	done  chan struct{}
	stops context.CancelFunc
	acked []string
	err   error
}

func StartWriter(t *testing.T, c Credentials) *Writer {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &Writer{done: make(chan struct{}), stops: cancel}
	db := c.Open(t)
	Exec(t, db, "CREATE TABLE written (id INT PRIMARY KEY)")
	go func() {
		defer close(w.done)
		for id := 0; ctx.Err() == nil; id++ {
			_, err := db.ExecContext(ctx, "INSERT INTO written VALUES (?)", id)
			switch {
			case err == nil:
				w.acked = append(w.acked, strconv.Itoa(id))
			case ErrorNumber(err) == 1142:
				return
			case ErrorNumber(err) != 0 && ErrorNumber(err) != 1317:
				w.err = err
				return
			}
		}
	}()
	return w
}

// GoesOn ends a writer to which nothing may have happened.
func (w *Writer) GoesOn(t *testing.T) {
	t.Helper()
	select {
	case <-w.done:
		t.Errorf("writes were refused after %d: %v", len(w.acked), w.err)
	default:
	}
	w.stops()
	<-w.done
}

// StopBroker returns the ids that the writer knows to be written.
func (w *Writer) Stop(t *testing.T) []string {
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

// ExpectWritten checks that nothing is lost that the writer knows to be written.
func ExpectWritten(t *testing.T, acked []string, c Credentials) {
	t.Helper()
	there := map[string]bool{}
	for _, id := range ReadAll(t, c.Open(t), "SELECT id FROM written") {
		there[id] = true
	}
	lost := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return there[id] })
	if len(acked) == 0 || len(lost) > 0 {
		t.Errorf("of %d rows that were written during the move, %q are lost", len(acked), lost)
	}
}

// ExpectSame compares what two databases hold.
func ExpectSame(t *testing.T, a, b Credentials) {
	t.Helper()
	from, to := a.Open(t), b.Open(t)
	for _, query := range []string{
		"SELECT CONCAT(table_name, table_type) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		"SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT(id, name) FROM items ORDER BY 1", "SELECT name FROM names ORDER BY 1",
		"SELECT CONCAT(COUNT(*), ' ', SUM(CRC32(id))) FROM written",
	} {
		if was, is := ReadAll(t, from, query), ReadAll(t, to, query); !slices.Equal(was, is) {
			t.Errorf("%s: %q became %q", query, was, is)
		}
	}
}

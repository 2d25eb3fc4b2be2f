package testdrive

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
)

// Contents lists everything that a database has: every object as it was created, without its definer, and the checksum
// of every table.
func Contents(t *testing.T, c Credentials) (all []string) {
	db := c.Open(t)
	for _, query := range []string{
		"SELECT CONCAT('table ', table_name) FROM information_schema.tables WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'column', table_name, ordinal_position, column_name, column_type, column_default, is_nullable,
			extra, generation_expression) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'index', table_name, index_name, seq_in_index, column_name, non_unique)
			FROM information_schema.statistics WHERE table_schema = DATABASE() ORDER BY 1`,
		`SELECT CONCAT_WS(' ', 'foreign key', table_name, constraint_name, unique_constraint_schema,
			referenced_table_name)
			FROM information_schema.referential_constraints WHERE constraint_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'view', table_name, view_definition) FROM information_schema.views WHERE table_schema = DATABASE() ORDER BY 1",
		`SELECT CONCAT_WS(' ', 'trigger', trigger_name, event_object_table, action_timing, event_manipulation, action_statement)
			FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1`,
		"SELECT CONCAT_WS(' ', 'routine', routine_type, routine_name) FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
		"SELECT CONCAT_WS(' ', 'event', event_name, status) FROM information_schema.events WHERE event_schema = DATABASE() ORDER BY 1",
	} {
		for _, line := range ReadAll(t, db, query) {
			all = append(all, strings.ReplaceAll(line, c.Database, "DATABASE"))
		}
	}
	tables := ReadAll(t, db, `SELECT table_name FROM information_schema.tables
		WHERE table_schema = DATABASE() AND table_type LIKE '%TABLE' ORDER BY 1`)
	for _, table := range tables {
		var name, sum string
		require.NoError(t, db.QueryRow("CHECKSUM TABLE `"+strings.ReplaceAll(table, "`", "``")+"` EXTENDED").Scan(&name, &sum))
		all = append(all, "checksum "+table+" "+sum)
	}
	return all
}

func ExpectContents(t *testing.T, what string, c Credentials, want []string) {
	assert.ElementsMatch(t, want, Contents(t, c), what)
}

// Cloneable provisions an instance with a table, a view, a routine and a trigger.
func Cloneable(t *testing.T, p Platform, plan string) (Instance, Credentials) {
	i := p.Provisioned(t, plan, Body{"context": CloudFoundry})
	return i, MakeObjects(t, i)
}

// ExpectClone uses a copy of a cloneable instance.
func ExpectClone(t *testing.T, i Instance) {
	b, c := i.Bound(t, nil)
	useObjects(t, c)
	assert.Empty(t, ReadAll(t, c.Open(t), "SHOW TABLES LIKE 'unfinished%'"), "the copy has the tables")
	b.Unbind(t)
}

// AccountsOf lists the accounts that were granted something on the database of credentials.
func AccountsOf(t *testing.T, p Platform, c Credentials) []string {
	return ReadAll(t, p.Admin(t), "SELECT user FROM mysql.db WHERE db = '"+strings.ReplaceAll(c.Database, "_", `\\_`)+"'")
}

// What becomes of statements of sessions that are killed, ConnectionKilled on MariaDB alone, and of servers that stop.
const (
	ConnectionLost       = 0 // which is no error of the server
	StatementInterrupted = 1317
	ConnectionKilled     = 1927
	ShuttingDown         = 1053
)

// Writer is an application that adds items until it may not write any more.
type Writer struct {
	done  chan struct{}
	stops context.CancelFunc
	acked []string
	err   error
}

// StartWriter starts one, which goes on after errors with the numbers tolerated.
func StartWriter(t *testing.T, c Credentials, tolerated ...uint16) *Writer {
	ctx, cancel := context.WithCancel(t.Context())
	w := &Writer{done: make(chan struct{}), stops: cancel}
	db := c.Open(t)
	Exec(t, db, "CREATE TABLE written (id INT PRIMARY KEY)")
	go func() {
		defer close(w.done)
		for id := 0; ctx.Err() == nil; id++ {
			_, err := db.ExecContext(ctx, "INSERT INTO written VALUES (?)", id)
			switch number := ErrorNumber(err); {
			case err == nil:
				w.acked = append(w.acked, strconv.Itoa(id))
			case number == Denied || ctx.Err() != nil:
				return
			case slices.Contains(tolerated, number):
				time.Sleep(pollInterval / 10)
			default:
				w.err = err
				return
			}
		}
	}()
	return w
}

// GoesOn ends a writer to which nothing may have happened. It returns the ids that the writer knows to be written.
func (w *Writer) GoesOn(t *testing.T) []string {
	t.Helper()
	select {
	case <-w.done:
		t.Errorf("writes were refused after %d: %v", len(w.acked), w.err)
	default:
	}
	w.stops()
	<-w.done
	return w.acked
}

// Stop returns the ids that the writer knows to be written.
func (w *Writer) Stop(t *testing.T) []string {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(limits.Stuck):
		t.Error("the application may still write at the old address")
		w.stops()
		<-w.done
	}
	assert.NoError(t, w.err, "a write failed")
	return w.acked
}

// ExpectWritten checks that nothing is lost that the writer knows to be written.
func ExpectWritten(t *testing.T, acked []string, c Credentials) {
	there := map[string]bool{}
	for _, id := range ReadAll(t, c.Open(t), "SELECT id FROM written") {
		there[id] = true
	}
	lost := slices.DeleteFunc(slices.Clone(acked), func(id string) bool { return there[id] })
	assert.False(t, len(acked) == 0 || len(lost) > 0,
		"of %d rows that were written meanwhile, %q are lost", len(acked), lost)
}

// ExpectSame compares what two databases have. An account that may only read, like those of the first one, sees no triggers.
func ExpectSame(t *testing.T, a, b Credentials) {
	assert.Equal(t, Contents(t, a), slices.DeleteFunc(Contents(t, b), func(line string) bool {
		return strings.HasPrefix(line, "trigger ")
	}))
}

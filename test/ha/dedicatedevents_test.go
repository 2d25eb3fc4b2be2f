package ha

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"mysql-broker/test/testdrive"
)

// makeEvents makes an event that writes down every second which member runs it, one that the application has disabled,
// and one that is not due but has settings and a name of another character set, which must stay.
func (w *groupWorld) makeEvents(t *testing.T) {
	t.Helper()
	if err := persist(t.Context(), func() error {
		return w.onPrimary(func(ctx context.Context, db *sql.DB) error {
			db.SetMaxOpenConns(1)
			for _, statement := range []string{
				"CREATE TABLE IF NOT EXISTS tick (n int AUTO_INCREMENT PRIMARY KEY, port int NOT NULL, at datetime(3) NOT NULL)",
				"CREATE EVENT IF NOT EXISTS ticks ON SCHEDULE EVERY 1 SECOND DO INSERT INTO tick (port, at) VALUES (@@port, NOW(3))",
				"CREATE EVENT IF NOT EXISTS off ON SCHEDULE EVERY 1 SECOND DISABLE DO INSERT INTO tick (port, at) VALUES (0, NOW(3))",
				"SET NAMES latin1",
				"SET SESSION time_zone = '+05:30', sql_mode = 'ANSI_QUOTES'",
				"CREATE EVENT IF NOT EXISTS `caf\xe9` ON SCHEDULE EVERY 7 YEAR STARTS '2035-01-01 00:00:00' COMMENT 'th\xe9' " +
					"DO INSERT INTO tick (port, at) SELECT \"port\", 'd\xe9j\xe0' FROM tick",
			} {
				if _, err := db.ExecContext(ctx, statement); err != nil {
					return err
				}
			}
			return nil
		})
	}); err != nil {
		t.Fatal(err)
	}
	w.events = w.readEvents(t)
	w.expectEvents(t, "before anything happens")
}

// readEvents describes the events.
func (w *groupWorld) readEvents(t *testing.T) (all []string) {
	t.Helper()
	if err := persist(t.Context(), func() error {
		all = nil
		return w.onPrimary(func(ctx context.Context, db *sql.DB) error {
			rows, err := db.QueryContext(ctx, `SELECT CONCAT_WS('|', event_name, definer, HEX(event_definition), sql_mode, time_zone,
				interval_value, interval_field, starts, event_comment, character_set_client, collation_connection)
				FROM information_schema.events ORDER BY 1`)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				var one string
				if err := rows.Scan(&one); err != nil {
					return err
				}
				all = append(all, one)
			}
			return rows.Err()
		})
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// expectEvents expects that exactly one member runs the events, none the disabled one, and that all are as they were
// made.
func (w *groupWorld) expectEvents(t *testing.T, when string) {
	t.Helper()
	began := time.Now()
	var last int
	read := func(query string, into ...any) error {
		return w.onPrimary(func(ctx context.Context, db *sql.DB) error { return db.QueryRowContext(ctx, query).Scan(into...) })
	}
	if err := persist(t.Context(), func() error {
		return read("SELECT COALESCE(MAX(n), 0) FROM tick", &last)
	}); err != nil {
		t.Fatal(err)
	}
	const ticks = 6
	var count, ports int
	var took float64
	testdrive.Eventually(t, testdrive.Patience, when+": events run", func() bool {
		err := read(fmt.Sprintf(`SELECT COUNT(*), COUNT(DISTINCT port), COALESCE(TIMESTAMPDIFF(MICROSECOND, MIN(at), MAX(at)), 0) / 1e6
			FROM (SELECT * FROM tick WHERE n > %d ORDER BY n DESC LIMIT %d) AS newest`, last, ticks), &count, &ports, &took)
		return err == nil && count == ticks && ports == 1
	})
	if took < ticks-2.5 {
		t.Errorf("%s: an event ran %d times in %.1f s instead of once a second", when, ticks, took)
	}
	for name, runs := range map[string]int{"ticks": 1, "caf%": 1, "off": 0} {
		testdrive.Eventually(t, testdrive.Patience, fmt.Sprintf("%s: %d members run the event %s", when, runs, name),
			func() bool { return w.countRunning(t, name) == runs })
	}
	if now := w.readEvents(t); !slices.Equal(now, w.events) {
		t.Errorf("%s: events have changed from\n%q to\n%q", when, w.events, now)
	}
	t.Logf("%s: a member runs the events, seen after %.1f s", when, time.Since(began).Seconds())
}

// countRunning counts the members that run an event. A member of MySQL that was copied from the primary has its events
// enabled as well, but secondaries run none.
func (w *groupWorld) countRunning(t *testing.T, name string) (count int) {
	t.Helper()
	for n := range 3 {
		db, err := w.openMember(n)
		if err != nil {
			t.Fatal(err)
		}
		var runs bool
		if err := db.QueryRow("SELECT status = 'ENABLED' AND NOT @@GLOBAL.read_only FROM information_schema.events "+
			"WHERE event_name LIKE ?", name).Scan(&runs); err == nil && runs {
			count++
		}
		db.Close()
	}
	return count
}

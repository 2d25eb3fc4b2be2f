package mysqlgroup

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// Events is what a launcher remembers of a group's events: by schema.name, whether the application has them run. They
// run on the member where they were created or altered last. Servers disable those that arrive by replication, also
// those which the application has disabled, so only that member knows.
// https://dev.mysql.com/doc/refman/8.4/en/replication-features-invoked.html
type Events struct {
	run map[string]bool
}

const (
	eventRuns = "ENABLED"
	eventOff  = "DISABLED" // by the application; replication sets REPLICA_SIDE_DISABLED, before MySQL 8.2 SLAVESIDE_…
)

// Due returns the events that the primary has to run, because the member that ran them is not a primary any more, or is
// gone.
func (e *Events) Due(all []Look) (due []string) {
	primary := Primary(all)
	if primary < 0 {
		return nil
	}
	runs, off, now := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, m := range all {
		for name, state := range m.Events {
			switch {
			case !m.Online():
			case state == eventOff:
				off[name] = true
			case state == eventRuns:
				now[name] = true
				runs[name] = runs[name] || m.Primary
			}
		}
	}
	known := map[string]bool{}
	for name := range all[primary].Events {
		switch {
		case off[name]:
			known[name] = false
		case now[name] || e.run[name]:
			known[name] = true
			if !runs[name] {
				due = append(due, name)
			}
		}
	}
	e.run = known
	slices.Sort(due)
	return due
}

// AskEvents reads the states of the events on a member, by schema.name.
func AskEvents(ctx context.Context, member *sql.Conn) (map[string]string, error) {
	rows, err := member.QueryContext(ctx,
		"SELECT CONCAT(event_schema, '.', event_name), status FROM information_schema.events")
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	defer rows.Close()
	var all map[string]string
	for rows.Next() {
		var name, state string
		if err := rows.Scan(&name, &state); err != nil {
			return nil, err
		}
		if all == nil {
			all = map[string]string{}
		}
		all[name] = state
	}
	return all, rows.Err()
}

// event is one that does not run on a member. ALTER EVENT replaces its definer and settings by those of the session.
type event struct {
	schema, name, definer, sqlMode, timeZone, charset, collation string
}

// Numbers of errors about events that are gone, or whose time has passed.
const (
	errNoSuchEvent = 1539
	errEventIsPast = 1589
)

// EnableEvents has a member run events, which are given as schema.name. Replication then disables them on all others.
func EnableEvents(ctx context.Context, member *sql.Conn, names []string) error {
	all, err := listStopped(ctx, member)
	errs := []error{err}
	for _, e := range all {
		if !slices.Contains(names, e.schema+"."+e.name) {
			continue
		}
		err := e.enable(ctx, member)
		if answer, ok := errors.AsType[*mysql.MySQLError](err); ok &&
			(answer.Number == errNoSuchEvent || answer.Number == errEventIsPast) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("enable the event %s of %s: %w", e.name, e.schema, err))
		}
	}
	return errors.Join(errs...)
}

func listStopped(ctx context.Context, member *sql.Conn) (all []event, err error) {
	rows, err := member.QueryContext(ctx, "SELECT event_schema, event_name, definer, sql_mode, time_zone, "+
		"character_set_client, collation_connection FROM information_schema.events WHERE status NOT IN (?, ?)",
		eventRuns, eventOff)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var e event
		if err := rows.Scan(&e.schema, &e.name, &e.definer, &e.sqlMode, &e.timeZone, &e.charset, &e.collation); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// enable sends the statement in the character set of the event's session, in which the server then reads it.
func (e event) enable(ctx context.Context, member *sql.Conn) (err error) {
	at := strings.LastIndexByte(e.definer, '@') // names of hosts have none
	var statement []byte
	if err := member.QueryRowContext(ctx, "SELECT CAST(CONVERT(? USING "+e.charset+") AS BINARY)",
		fmt.Sprintf("ALTER DEFINER=%s@%s EVENT %s.%s ENABLE", quote(e.definer[:at]), quote(e.definer[at+1:]),
			quote(e.schema), quote(e.name))).Scan(&statement); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, exec(ctx, member, "SET NAMES utf8mb4")) }()
	return exec(ctx, member, fmt.Sprintf("SET SESSION sql_mode = '%s', time_zone = '%s', collation_connection = %s, "+
		"character_set_client = %s, lock_wait_timeout = 1", e.sqlMode, e.timeZone, e.collation, e.charset),
		string(statement))
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

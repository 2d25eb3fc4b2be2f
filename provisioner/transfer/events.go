package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"time"
)

// Events are those of a copy that run in the source. Copy creates them disabled, because they would change rows that
// are still compared, or run in both databases while an application still uses the source.
type Events struct {
	list      []program
	collation string // the default of the database
}

// enabledEvent matches the text of an event that runs, as SHOW CREATE prints it without its definer, up to the word
// ENABLE. Before that, only the schedule has strings, which are times and intervals.
var enabledEvent = regexp.MustCompile(`(?s)^(CREATE EVENT ` + quoted + ` ON SCHEDULE (?:[^'"` + "`" + `]|'[^']*')*? ` +
	`ON COMPLETION (?:NOT )?PRESERVE )ENABLE\b`)

// stoppedEvent matches the text of an event that has arrived by replication.
var stoppedEvent = regexp.MustCompile(`(?s)^(CREATE (?:DEFINER=` + quoted + `@` + quoted + ` )?EVENT ` + quoted +
	` ON SCHEDULE (?:[^'"` + "`" + `]|'[^']*')*? ON COMPLETION (?:NOT )?PRESERVE )DISABLE ON (?:SLAVE|REPLICA)\b`)

// notPreserved matches the text of an event up to a clause that only says the default. With the SQL mode
// HIGH_NOT_PRECEDENCE, servers print it but do not understand it.
var notPreserved = regexp.MustCompile(`(?s)^(CREATE EVENT ` + quoted + ` ON SCHEDULE (?:[^'"` + "`" + `]|'[^']*')*?)` +
	` ON COMPLETION NOT PRESERVE\b`)

// ends finds the time of an event that runs once, or the last time of another one.
var ends = regexp.MustCompile(`(?s)^CREATE EVENT ` + quoted + ` ON SCHEDULE (?:[^'"` + "`" + `]|'[^']*')*? ?` +
	`(?:AT|ENDS) '([-0-9]+ [:0-9]+)`)

// endOfEvent returns the time after which a server no longer creates an event that has ended; the zero time for never.
func endOfEvent(text string) time.Time {
	found := ends.FindStringSubmatch(text)
	if found == nil {
		return time.Time{}
	}
	end, _ := time.Parse(time.DateTime, found[1]) // zero if it is none
	return end
}

// makeEvents creates the events, all of them disabled. It returns those that are to run.
func (b *builder) makeEvents(ctx context.Context, conn *sql.Conn) (Events, error) {
	later := Events{collation: b.Collation}
	disabled := make([]program, len(b.Events))
	for n, p := range b.Events {
		text := withoutDefiner(string(p.Text))
		if enabledEvent.MatchString(text) {
			later.list = append(later.list, p)
			p.Text = []byte(enabledEvent.ReplaceAllString(text, "${1}DISABLE"))
		} else {
			p.before = endOfEvent(text)
		}
		disabled[n] = p
	}
	return later, b.makeAll(ctx, conn, disabled)
}

// createEvent finds the name of an event in its text, in the character set of the text.
var createEvent = regexp.MustCompile(`^CREATE EVENT (` + quoted + `)`)

// Numbers of server errors about events whose time has passed since they were copied.
const (
	errNoSuchEvent = 1539
	errEventIsPast = 1589
)

// Enable lets the events run, in the name of the target's account. alive is called before each.
func (e Events) Enable(ctx context.Context, to Target, alive func() error) error {
	if len(e.list) == 0 {
		return nil
	}
	b := newBuilder(Schema{programSet: programSet{Collation: e.collation}}, to, Options{Alive: alive})
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	for _, p := range e.list {
		name := createEvent.FindStringSubmatch(withoutDefiner(string(p.Text)))
		if name == nil {
			return fmt.Errorf("the text of the %s does not begin with its name", p)
		}
		p.Text = []byte("ALTER EVENT " + name[1] + " ENABLE")
		// With the settings of its creation: a server may store those of the session.
		if err := p.make(ctx, b, conn); err != nil && number(err) != errNoSuchEvent && number(err) != errEventIsPast {
			return err
		}
	}
	return nil
}

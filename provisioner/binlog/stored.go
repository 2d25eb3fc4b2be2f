package binlog

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// stored is a procedure or an event, and the settings with which the server has read its text. For a statement in it,
// the log has the settings with which it ran, and the text may set others before.
type stored struct {
	name       string // with the kind
	body       string // as Replay.letters returns it
	modes      string // of sql_mode, separated by commas
	client     string // the character sets
	connection string
}

// reading is a SQL mode that changes how some texts are read.
type reading struct {
	mode string
	bit  int
	text *regexp.Regexp
}

var readings = []reading{
	{"REAL_AS_FLOAT", 0, regexp.MustCompile(`(?i)\bREAL\b`)},
	{"PIPES_AS_CONCAT", 1, regexp.MustCompile(`\|\|`)},
	{"ANSI_QUOTES", 2, regexp.MustCompile(`"`)},
	{"IGNORE_SPACE", 3, regexp.MustCompile(`\w\s+\(`)},
	{"ORACLE", 9, regexp.MustCompile("")},
	{"MSSQL", 10, regexp.MustCompile(`\[`)},
	{"NO_BACKSLASH_ESCAPES", 20, regexp.MustCompile(`\\`)},
	{"HIGH_NOT_PRECEDENCE", 29, regexp.MustCompile(`(?i)\bNOT\b`)},
	{"EMPTY_STRING_IS_NULL", 32, regexp.MustCompile(`''|""`)},
}

// readStored adds the procedures and events that the target has now to those that it had before: an event can be gone
// before its last statement.
func (r *Replay) readStored(ctx context.Context) error {
	rows, err := r.rows.QueryContext(ctx, `SELECT LOWER(routine_type), routine_name, COALESCE(routine_definition, ''),
			sql_mode, character_set_client, SUBSTRING_INDEX(collation_connection, '_', 1)
		FROM information_schema.routines WHERE routine_schema = ? AND routine_type <> 'FUNCTION'
		UNION ALL SELECT 'event', event_name, event_definition, sql_mode, character_set_client,
			SUBSTRING_INDEX(collation_connection, '_', 1)
		FROM information_schema.events WHERE event_schema = ?`, r.Target, r.Target)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var s stored
		var kind, name string
		if err := rows.Scan(&kind, &name, &s.body, &s.modes, &s.client, &s.connection); err != nil {
			return err
		}
		s.name, s.body = fmt.Sprintf("%s `%s`", kind, name), r.letters(s.body)
		if !slices.Contains(r.stored, s) {
			r.stored = append(r.stored, s)
		}
	}
	return rows.Err()
}

var noLetters = regexp.MustCompile(`\W+`)

// letters returns what of a text is the same in every character set and database.
func (r *Replay) letters(text string) string {
	return noLetters.ReplaceAllString(strings.NewReplacer(r.Source, "", r.Target, "").Replace(text), "")
}

// asWritten returns the part of a statement that is as its client has written it: servers write the head of a view.
func asWritten(text string, all []token) string {
	d := definition{tokens: all}
	for ; d.at < len(all); d.at++ {
		switch d.word(d.at) {
		case "TABLE", "INDEX", "DATABASE", "SCHEMA", "SEQUENCE", "PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE":
			return text
		case "VIEW":
			for ; d.at < len(all); d.at++ {
				if d.accept("AS") {
					return text[all[d.at-1].end:]
				}
			}
		}
	}
	return text
}

// refuseStored returns an error if a procedure or an event may have run the statement after it has set how texts are
// read: the server has read the statement before, and the log does not say how.
func (r *Replay) refuseStored(ctx context.Context, q query, text string) error {
	all := q.tokens(text)
	ends := len(all) > 0 && (all[0].text == "DROP" || all[0].text == "ALTER") // an event is dropped before it has ended
	whole := strings.ToValidUTF8(definer.ReplaceAllString(text, "$1"), "?")
	text = asWritten(text, all)
	var depends []reading
	for _, reading := range readings {
		if reading.text.MatchString(text) {
			depends = append(depends, reading)
		}
	}
	foreign := !ascii.MatchString(text)
	quotes := r.MySQL && strings.ContainsAny(text, `'"`) // which keeps the character set of each string
	open := len(depends) > 0 || foreign || quotes
	if !open && !ends {
		return nil
	}
	if err := r.readStored(ctx); err != nil {
		return fmt.Errorf("read procedures and events: %w", err)
	}
	if !open {
		return nil
	}
	letters := r.letters(text)
	for _, s := range r.stored {
		if !strings.Contains(s.body, letters) {
			continue
		}
		same, err := s.readAs(depends, q.sqlMode), error(nil)
		if same && foreign {
			same, err = r.ofCharset(ctx, fmt.Sprint(q.client), s.client)
		}
		if same && quotes {
			same, err = r.ofCharset(ctx, q.set["collation_connection"], s.connection)
		}
		if err != nil {
			return err
		}
		if !same {
			const enough = 100
			return &UnsupportedError{What: fmt.Sprintf("a statement of the %s, which may have set sql_mode or a character set "+
				"before: %.*s", s.name, enough, whole)}
		}
	}
	return nil
}

// readAs reports whether the server has read the text with these modes as a bit mask says.
func (s stored) readAs(modes []reading, mask uint64) bool {
	on := strings.Split(s.modes, ",")
	return !slices.ContainsFunc(modes, func(m reading) bool {
		return slices.Contains(on, m.mode) != (mask>>m.bit&1 == 1)
	})
}

// ofCharset reports whether a collation is one of the character set.
func (r *Replay) ofCharset(ctx context.Context, id, name string) (bool, error) {
	charset, err := r.charset(ctx, id)
	if err != nil {
		return false, fmt.Errorf("find the collation %s: %w", id, err)
	}
	return charset == name, nil
}

package binlog

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// likeTemporary matches how servers write CREATE TABLE … LIKE of a temporary table: without its options.
var likeTemporary = regexp.MustCompile(`(?s)^CREATE (?:OR REPLACE )?TABLE (?:IF NOT EXISTS )?(?:` +
	quotedName + `\.)?(` + quotedName + `) (\(\n  .*\n\)(?: ENGINE=\w+)?)$`)

// leavesOut are the SQL modes with which servers write a table without some of its options, or those of its columns:
// ANSI and, on MariaDB, those of other and older servers.
const leavesOut = 1<<19 - 1<<8

// refuseGenerated returns an error if the server has written the text of a definition itself, or may have, and that
// text is not what it means.
func (r *Replay) refuseGenerated(ctx context.Context, q query, text string, certain bool) error {
	if !certain && !likeTemporary.MatchString(text) {
		return nil
	}
	cause := ""
	switch {
	case q.sqlMode&leavesOut != 0:
		cause = "that the server has written without some options, as sql_mode says"
	case q.sqlMode&noBackslashEscapes != 0 && strings.Contains(text, `\`):
		cause = "with backslashes that are not what NO_BACKSLASH_ESCAPES makes of them"
	case asksInString(tokens(text, q.sqlMode, utf8mb4)):
		cause = "with a question mark, which the server also writes for other characters"
	case !ascii.MatchString(text) && utf8.ValidString(text):
		charset, err := r.charsetOf(ctx, q.client)
		if err != nil {
			return err
		}
		if charset != "" {
			cause = "that is in UTF-8 or in " + charset
		}
	}
	if cause == "" {
		return nil
	}
	return refuseDefinition(q, text, cause)
}

func refuseDefinition(q query, text, cause string) error {
	d := definition{tokens: tokens(text, q.sqlMode, utf8mb4)}
	d.readKind()
	return &UnsupportedError{What: fmt.Sprintf("a definition of the table `%s` %s", d.name, cause)}
}

// refuseLike returns an error if a table that was just created by a text may have been made like a temporary one: if
// the server writes it just so.
func (r *Replay) refuseLike(ctx context.Context, q query, text string) error {
	found := likeTemporary.FindStringSubmatch(text)
	if found == nil {
		return nil
	}
	var name, created string
	if err := r.ddl.QueryRowContext(ctx, "SHOW CREATE TABLE "+found[1]).Scan(&name, &created); err != nil {
		return err
	}
	if !strings.Contains(created, found[2]) {
		return nil
	}
	return refuseDefinition(q, text, "like a temporary one, whose character set and other options the log does not have")
}

// asksInString reports whether a string has a question mark and is no comment.
func asksInString(all []token) bool {
	d := definition{tokens: all}
	for n, t := range all {
		comment := d.word(n-1) == "COMMENT" || d.word(n-1) == "=" && d.word(n-2) == "COMMENT"
		if t.quoted != 0 && t.quoted != '`' && !comment && strings.Contains(t.name, "?") {
			return true
		}
	}
	return false
}

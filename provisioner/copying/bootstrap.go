package copying

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
)

// bootstrapTimeout bounds the statements of the parameter bootstrap, all together.
const bootstrapTimeout = 10 * time.Minute

// bootstrapResponse limits the response to each of these statements.
const bootstrapResponse = 4 << 20

// bootstrap runs the script of the request. It may sleep, so that it has neither a turn nor a worker meanwhile.
func (f Filling) bootstrap(ctx context.Context, run *task.Run, owner mysqladmin.Account) error {
	if err := run.Report(ctx, "Running the SQL of the parameter bootstrap"); err != nil {
		return err
	}
	f.turns.end(run.Task.ID)
	return run.WithoutWorker(func() error {
		free, err := f.bootstraps.Take(ctx, run.Task.Organization)
		if err != nil {
			return err
		}
		defer free()
		limit := &mysqladmin.ResponseLimit{Bytes: bootstrapResponse}
		err = f.asOwner(ctx, run, owner, limit, func(ctx context.Context, to transfer.Target) error {
			return bootstrap(ctx, run, to, f.Parameters.Bootstrap, limit)
		})
		// Else a cleanup would take what the script has made for data of somebody else. Its own error says more.
		marking := f.InSession(f.Instance, f.Lock, func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			return s.Databases.MarkAgain(ctx, f.Instance.Database)
		})(ctx, run)
		return cmp.Or(err, marking)
	})
}

// bootstrap runs the statements of a script one after the other, on one connection. An error of the server tells which
// statement failed and the number of the error, but not its text, which can quote values.
func bootstrap(ctx context.Context, run *task.Run, to transfer.Target, text string,
	limit *mysqladmin.ResponseLimit) error {
	limited, cancel := context.WithTimeout(ctx, bootstrapTimeout)
	defer cancel()
	conn, err := to.DB.Conn(limited)
	if err != nil {
		return err
	}
	defer func() { // nothing else runs with its settings, locks and transaction
		_ = conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = conn.Close()
	}()
	statements, escapes := newScript(text), false
	for n, statement := 0, "sql_mode"; ; n++ {
		if ofQuotes.MatchString(statement) {
			const query = "SELECT FIND_IN_SET('NO_BACKSLASH_ESCAPES', @@SESSION.sql_mode) = 0"
			if err := conn.QueryRowContext(limited, query).Scan(&escapes); err != nil {
				return err
			}
		}
		var found bool
		if statement, found = statements.next(escapes); !found {
			return nil
		}
		if err := run.Alive(); err != nil {
			return err
		}
		_, err := conn.ExecContext(limited, statement)
		if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return engine.Fail(run.Task, engine.BootstrapFailed, fmt.Errorf("bootstrap: error %d (%s)", refusal.Number,
				refusal.SQLState[:]), n+1, beginning(statement), refusal.Number)
		}
		if err != nil && limit.Exceeded() {
			return engine.Fail(run.Task, engine.BootstrapTalks, errors.New("the response is too long"), n+1,
				beginning(statement), bootstrapResponse>>20)
		}
		if limited.Err() != nil && ctx.Err() == nil {
			return engine.Fail(run.Task, engine.BootstrapLong, err, bootstrapTimeout)
		}
		if err != nil {
			return err
		}
	}
}

// ofQuotes matches statements that can change how strings are read.
var ofQuotes = regexp.MustCompile(`(?i)sql_mode|^execute\b`)

// beginning returns the first two words of a statement in parentheses, if they are plain words.
func beginning(statement string) string {
	words := strings.Fields(statement)
	for n, word := range words {
		if n == 2 || strings.Trim(strings.ToUpper(word), "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || len(word) > 20 {
			words = words[:n]
			break
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.ToUpper(strings.Join(words, " ")) + ")"
}

// script is what is left of an SQL script after the statements that were read.
type script struct{ text, delimiter string }

func newScript(text string) *script {
	return &script{strings.TrimPrefix(text, "\ufeff"), ";"} // the byte order mark of a file
}

// delimiterCommand matches what changes the delimiter, which programs with several statements need.
var delimiterCommand = regexp.MustCompile(`(?i)^delimiter[ \t]+(\S+)[^\n]*`)

// next reads a statement as the mysql program does: up to the delimiter, which does not count in strings, quoted names
// and comments. Comments before the statement, or before a DELIMITER, are left out. escapes says whether a backslash in
// a string has a meaning.
func (s *script) next(escapes bool) (statement string, found bool) {
	begin := -1 // of the statement
	for at := 0; at < len(s.text); {
		rest, length := s.text[at:], 0
		switch {
		case strings.HasPrefix(rest, s.delimiter):
			length = len(s.delimiter)
		case strings.HasPrefix(rest, `\g`), strings.HasPrefix(rest, `\G`):
			length = 2
		}
		if length > 0 && begin >= 0 {
			statement, s.text = s.text[begin:at], rest[length:]
			return strings.TrimSpace(statement), true
		}
		if command := delimiterCommand.FindStringSubmatch(rest); length == 0 && begin < 0 && command != nil {
			s.delimiter, length = unquote(command[1]), len(command[0])
		}
		if length == 0 {
			var comment bool
			if length, comment = skipped(rest, escapes); !comment && begin < 0 {
				begin = at
			}
		}
		at += length
	}
	if begin >= 0 {
		statement = strings.TrimSpace(s.text[begin:])
	}
	s.text = ""
	return statement, begin >= 0
}

// unquote removes the quotation marks that the argument of DELIMITER may have.
func unquote(word string) string {
	if last := len(word) - 1; last > 1 && word[0] == word[last] && strings.IndexByte("'\"`", word[0]) >= 0 {
		return word[1:last]
	}
	return word
}

// skipped returns how long the string, quoted name, comment or character is with which text begins. White space is like
// a comment. What is in a comment that the server runs is like the rest of the statement.
func skipped(text string, escapes bool) (length int, comment bool) {
	until := func(from int, end string) int {
		if n := strings.Index(text[from:], end); n >= 0 {
			return from + n + len(end)
		}
		return len(text)
	}
	switch {
	case strings.HasPrefix(text, "/*!"), strings.HasPrefix(text, "/*M!"):
		return strings.IndexByte(text, '!') + 1, false
	case strings.HasPrefix(text, "/*+"):
		return until(3, "*/"), false
	case strings.HasPrefix(text, "/*"):
		return until(2, "*/"), true
	case text[0] == '#', text == "--", strings.HasPrefix(text, "--") && isSpace(text[2]):
		return until(1, "\n"), true
	case text[0] == '`':
		return until(1, "`"), false
	case text[0] == '\'' || text[0] == '"':
		for at := 1; at < len(text); at++ {
			switch {
			case text[at] == '\\' && escapes:
				at++
			case text[at] == text[0]:
				return at + 1, false // a doubled quote begins another string
			}
		}
		return len(text), false
	}
	return 1, isSpace(text[0])
}

func isSpace(c byte) bool { return strings.IndexByte(" \t\n\v\f\r", c) >= 0 }

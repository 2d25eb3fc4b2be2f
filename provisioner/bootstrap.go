package provisioner

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
)

// bootstrapTimeout bounds the statements of the parameter bootstrap, all together.
const bootstrapTimeout = 10 * time.Minute

// bootstrap runs the statements of a script one after the other, on one connection. An error of the server tells which
// statement failed and the number of the error, but not its text, which can quote values.
func bootstrap(ctx context.Context, to transfer.Target, script string, alive func() error) error {
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
	for n, statement := range splitScript(script) {
		if err := alive(); err != nil {
			return err
		}
		_, err := conn.ExecContext(limited, statement)
		if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok {
			return task.Permanent(fmt.Sprintf("Statement %d of the parameter bootstrap%s failed with MySQL's error %d. "+
				"Delete the service instance, mend the SQL, and create it again.", n+1, beginning(statement), refusal.Number),
				fmt.Errorf("bootstrap: error %d (%s)", refusal.Number, refusal.SQLState[:]))
		}
		if limited.Err() != nil && ctx.Err() == nil {
			return task.Permanent(fmt.Sprintf("The parameter bootstrap took longer than %v. Delete the service instance, "+
				"shorten the SQL, and create it again.", bootstrapTimeout), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

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

// splitScript splits SQL at its delimiters, as the mysql program does. A line "DELIMITER x" changes the delimiter,
// which programs with several statements need. Delimiters in strings, quoted names and comments do not count.
func splitScript(script string) (statements []string) {
	script = strings.TrimPrefix(script, "\ufeff") // the byte order mark of a file
	delimiter, start := ";", 0
	add := func(end int) {
		if text := strings.TrimSpace(script[start:end]); !onlyComments(text) {
			statements = append(statements, text)
		}
	}
	for at := 0; at < len(script); {
		rest := script[at:]
		if blank(script[start:at]) && (at == 0 || script[at-1] == '\n') {
			line, _, _ := strings.Cut(rest, "\n")
			if words := strings.Fields(line); len(words) == 2 && strings.EqualFold(words[0], "DELIMITER") {
				delimiter = words[1]
				at += len(line)
				start = at
				continue
			}
		}
		if strings.HasPrefix(rest, delimiter) {
			add(at)
			at += len(delimiter)
			start = at
			continue
		}
		at += skipped(rest)
	}
	add(len(script))
	return statements
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }

// skipped returns how long the string, quoted name, comment or character is with which text begins.
func skipped(text string) int {
	until := func(from int, end string) int {
		if n := strings.Index(text[from:], end); n >= 0 {
			return from + n + len(end)
		}
		return len(text)
	}
	switch {
	case strings.HasPrefix(text, "/*"):
		return until(2, "*/")
	case text[0] == '#', strings.HasPrefix(text, "-- "), strings.HasPrefix(text, "--\n"), strings.HasPrefix(text, "--\t"):
		return until(1, "\n")
	case text[0] == '`':
		return until(1, "`")
	case text[0] == '\'' || text[0] == '"':
		for at := 1; at < len(text); at++ {
			switch text[at] {
			case '\\':
				at++
			case text[0]:
				return at + 1 // a doubled quote begins another string
			}
		}
		return len(text)
	}
	return 1
}

// onlyComments reports whether a statement has nothing to run. Comments that begin with /*! are run.
func onlyComments(statement string) bool {
	for statement != "" {
		n := skipped(statement)
		if n == 1 && !blank(statement[:1]) || strings.HasPrefix(statement, "/*!") || strings.HasPrefix(statement, "/*M!") ||
			statement[0] == '\'' || statement[0] == '"' || statement[0] == '`' {
			return false
		}
		statement = statement[n:]
	}
	return true
}

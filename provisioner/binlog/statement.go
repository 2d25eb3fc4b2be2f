package binlog

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// comments matches what can come before the first word of a statement.
var comments = regexp.MustCompile(`^(?:\s+|/\*(?s:[^!M].*?|M|M[^!].*?)??\*/|--(?:[^\S\n][^\n]*)?\n|#[^\n]*\n)+`)

const (
	quotedName = "(?:`(?:[^`]|``)*`|\"(?:[^\"]|\"\")*\"|'(?:[^']|'')*')"
	plainName  = `[\w$.%-]+`
	anyName    = "(?:" + quotedName + "|" + plainName + ")"
)

var (
	// ofServer matches statements about accounts and the server. Only the broker can run these, no tenant.
	ofServer = regexp.MustCompile(`(?is)^(?:GRANT|REVOKE|SET\s+(?:PASSWORD|DEFAULT|ROLE|GLOBAL)|FLUSH|INSTALL|` +
		`UNINSTALL|RESET|PURGE|CHANGE|START|STOP|(?:CREATE|ALTER|DROP|RENAME)\s+(?:OR\s+REPLACE\s+)?` +
		`(?:USER|ROLE|SERVER|TABLESPACE|UNDO|LOGFILE|RESOURCE|SPATIAL\s+REFERENCE|INSTANCE)\b|` +
		`DELETE\s+FROM\s+mysql\.|INSERT\s+INTO\s+mysql\.|UPDATE\s+mysql\.)`)

	// createDatabase matches the beginning of such a statement, up to the options.
	createDatabase = regexp.MustCompile(`(?is)^CREATE\s+(?:OR\s+REPLACE\s+)?(?:DATABASE|SCHEMA)\s+` +
		`(?:IF\s+NOT\s+EXISTS\s+)?` + anyName + `\s*`)

	definer = regexp.MustCompile(`(?is)^((?:CREATE|ALTER)\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?` +
		`(?:MATERIALIZED\s+(?:/\*.*?\*/\s*)?)?)` +
		`DEFINER\s*=\s*` + anyName + `(?:\s*@\s*` + anyName + `)?\s+`)

	// program matches the creation of a view, routine, trigger or event without its definer.
	program = regexp.MustCompile(`(?is)^CREATE\s+(?:ALGORITHM\s*=\s*\w+\s+)?(?:MATERIALIZED\s+(?:/\*.*?\*/\s*)?)?` +
		`(?:SQL\s+SECURITY\s+\w+\s+)?` +
		`(?:AGGREGATE\s+)?(VIEW|PROCEDURE|FUNCTION|TRIGGER|EVENT)\s+(?:IF\s+NOT\s+EXISTS\s+)?` +
		`(` + anyName + `(?:\s*\.\s*` + anyName + `)?)`)

	ofTransaction = regexp.MustCompile(`(?i)^(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|ROLLBACK TO|XA)\b`)
)

// ofSavepoint matches a statement about a savepoint whose name is in double quotes: its session had ANSI_QUOTES.
var ofSavepoint = regexp.MustCompile(`(?is)^(SAVEPOINT|ROLLBACK\s+TO)\s+"((?:[^"]|"")*)"\s*$`)

// withBackticks returns a statement about a savepoint as sessions without ANSI_QUOTES read it.
func withBackticks(text string) string {
	found := ofSavepoint.FindStringSubmatch(text)
	if found == nil {
		return text
	}
	name := strings.ReplaceAll(found[2], `""`, `"`)
	return found[1] + " " + quoteName(name)
}

// renamed replaces the name of a database by another one, where it qualifies a name or is that of a statement about the
// database. Tables, columns and variables can have the same name.
func renamed(text string, all []token, from, to string) string {
	d, done := definition{tokens: all}, 0
	var out strings.Builder
	for n, t := range all {
		if t.name != from || t.quoted != 0 && t.quoted != '`' {
			continue
		}
		before := n - 1
		for slices.Contains([]string{"IF", "NOT", "EXISTS"}, d.word(before)) {
			before--
		}
		switch d.word(before) {
		case "DATABASE", "SCHEMA":
		case ".", "@":
			continue
		default:
			if d.word(n+1) != "." {
				continue
			}
		}
		out.WriteString(text[done:t.at] + strings.Replace(text[t.at:t.end], from, to, 1))
		done = t.end
	}
	return out.String() + text[done:]
}

// committed removes the clause with which MySQL writes CREATE TABLE … SELECT, whose rows follow in the same
// transaction. Further clauses can follow it.
func committed(text string, all []token) (without string, found bool) {
	if len(all) < 2 || all[0].text != "CREATE" || all[1].text != "TABLE" {
		return text, false
	}
	for n := 2; n+1 < len(all); n++ {
		if all[n].text == "START" && all[n+1].text == "TRANSACTION" {
			return text[:all[n].at] + text[all[n+1].end:], true
		}
	}
	return text, false
}

// ofDatabase reports whether a statement drops a database, creates one, or both.
func ofDatabase(all []token) (drops, creates bool) {
	d := definition{tokens: all}
	switch {
	case d.accept("DROP"):
		drops = true
	case d.accept("CREATE", "OR", "REPLACE"):
		drops, creates = true, true
	case d.accept("CREATE"):
		creates = true
	}
	if !d.accept("DATABASE") && !d.accept("SCHEMA") {
		return false, false
	}
	return drops, creates
}

// subject returns " about" the kind and name of what a definition creates, changes or drops; "" if it is of another
// kind. It has nothing else of the text, which may have secrets.
func subject(all []token) string {
	d := definition{tokens: all}
	for d.at < len(all) {
		kind := d.word(d.at)
		d.at++
		if !slices.Contains(kinds, kind) {
			continue
		}
		d.accept("BODY") // of a package
		_ = d.accept("IF", "NOT", "EXISTS") || d.accept("IF", "EXISTS")
		if d.word(d.at+1) == "." {
			d.at += 2
		}
		if d.at >= len(all) || all[d.at].quoted != 0 && all[d.at].quoted != '`' {
			break
		}
		return fmt.Sprintf(" about the %s `%s`", strings.ToLower(kind), strings.ToValidUTF8(all[d.at].name, "?"))
	}
	return ""
}

var kinds = strings.Fields("TABLE VIEW INDEX SEQUENCE PROCEDURE FUNCTION TRIGGER EVENT PACKAGE LIBRARY")

package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Flavours that Options.Into names.
const (
	MySQL   = "MySQL"
	MariaDB = "MariaDB"
)

// rule is how a part of a table's definition is written in the other flavour.
type rule struct {
	pattern     *regexp.Regexp
	replacement string // as of regexp.Regexp.ReplaceAllString
	lost        string // what users read about the loss if the rule applies; "" if nothing is lost
}

func ruleOf(pattern, replacement, lost string) rule {
	return rule{regexp.MustCompile(pattern), replacement, lost}
}

// lineRules apply to the lines of SHOW CREATE TABLE, one for each column, key or option, outside strings and quoted
// names. The first ones that match drop the line, those with the replacement dropLine.
var lineRules = map[string][]rule{
	MariaDB: {
		ruleOf(`^ +(?:UNIQUE |FULLTEXT |SPATIAL )?KEY .*[(,]\(.*$`, dropLine, "an index on an expression"),
		ruleOf(`^ +CONSTRAINT .* /\*!80016 NOT ENFORCED \*/,?$`, dropLine, "a check that is not enforced"),
		ruleOf(`(^ +\x00\d+\x00) json\b`, "$1 json", "the type JSON, which becomes LONGTEXT"),
		ruleOf(`(^ +\x00\d+\x00) geomcollection\b`, "$1 geometrycollection", ""),
		ruleOf(` /\*!80003 SRID \d+ \*/`, "", "the SRID of a column"),
		ruleOf(`/\*!80023 INVISIBLE \*/`, "INVISIBLE", ""),
		ruleOf(`/\*!80000 INVISIBLE \*/`, "IGNORED", ""),
		ruleOf(` /\*!80016 DEFAULT ENCRYPTION=\x00\d+\x00 \*/| ENCRYPTION=\x00\d+\x00`, "", ""),
	},
	MySQL: {
		ruleOf(`^ +PERIOD FOR SYSTEM_TIME .*$`, dropLine, ""),
		ruleOf(`^ +.* GENERATED ALWAYS AS ROW (?:START|END).*$`, dropLine, ""),
		ruleOf(` WITH SYSTEM VERSIONING\b`, "", "the history of a system-versioned table"),
		ruleOf(` WITHOUT SYSTEM VERSIONING\b`, "", ""),
		ruleOf(`(^ +\x00\d+\x00) uuid\b`, "$1 char(36) CHARACTER SET ascii", "the type UUID, which becomes CHAR(36)"),
		ruleOf(`(^ +\x00\d+\x00) inet4\b`, "$1 varchar(15) CHARACTER SET ascii", "the type INET4, which becomes VARCHAR(15)"),
		ruleOf(`(^ +\x00\d+\x00) inet6\b`, "$1 varchar(45) CHARACTER SET ascii", "the type INET6, which becomes VARCHAR(45)"),
		ruleOf(` (?:PAGE_CHECKSUM|TRANSACTIONAL|PAGE_COMPRESSED)=\S+`, "", ""),
		ruleOf("^( +.*KEY .*) IGNORED\\b", "$1 INVISIBLE", ""),
		ruleOf(` DEFAULT ((?:[a-z_]+\(\))+)`, " DEFAULT ($1)", ""),
		ruleOf(` DEFAULT \(((?:current_timestamp|now)\(\d*\))\)`, " DEFAULT $1", ""),
	},
}

const dropLine = "\x01"

// foreignCollation matches collations that the other flavour does not have.
var foreignCollation = map[string]*regexp.Regexp{
	MariaDB: regexp.MustCompile(`\b(utf8mb4)_(?:[a-z_]+_)?0900_(?:(ai_ci|as_ci|as_cs|bin)|\w+)\b`),
	MySQL: regexp.MustCompile(`\b(utf8mb[34]|ucs2|utf16|utf32)_` +
		`(?:uca1400_\w*?(ai_ci|as_ci|as_cs|ai_cs)|\w*nopad_\w+)\b`),
}

// collation returns the most similar collation of the other flavour.
func collation(into, name string) string {
	found := foreignCollation[into].FindStringSubmatch(name)
	if found == nil {
		return name
	}
	if into == MariaDB {
		switch found[2] {
		case "bin":
			return "utf8mb4_nopad_bin"
		case "as_ci", "as_cs":
			return "utf8mb4_uca1400_nopad_" + found[2]
		}
		return "utf8mb4_uca1400_nopad_ai_ci"
	}
	switch {
	case found[2] == "":
		return strings.Replace(name, "nopad_", "", 1)
	case found[1] != "utf8mb4":
		return found[1] + "_unicode_ci"
	case found[2] == "as_ci" || found[2] == "as_cs":
		return "utf8mb4_0900_" + found[2]
	}
	return "utf8mb4_0900_ai_ci"
}

// modes are the SQL modes that only one flavour has.
var modes = map[string][]string{
	MariaDB: {"TIME_TRUNCATE_FRACTIONAL"},
	MySQL: {"NO_AUTO_CREATE_USER", "IGNORE_BAD_TABLE_OPTIONS", "EMPTY_STRING_IS_NULL", "SIMULTANEOUS_ASSIGNMENT",
		"TIME_ROUND_FRACTIONAL", "POSTGRESQL", "ORACLE", "MSSQL", "DB2", "MAXDB", "MYSQL323", "MYSQL40", "NO_KEY_OPTIONS",
		"NO_TABLE_OPTIONS", "NO_FIELD_OPTIONS"},
}

// losses lists what a copy to the other flavour lacks, or has in another form.
type losses []string

func (l *losses) add(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(*l, text) {
		*l = append(*l, text)
	}
}

// maxLosses is how many losses a description lists: some platforms cut long descriptions.
const maxLosses = 20

func (l losses) refuse(into string) error {
	shown := l
	more := ""
	if len(shown) > maxLosses {
		shown, more = shown[:maxLosses], fmt.Sprintf("; and %d more", len(l)-maxLosses)
	}
	return refused(nil, "The copy would go to %s, and would lose or change: %s%s. To accept that, create another one "+
		`with "allow_lossy": true.`, into, strings.Join(shown, "; "), more)
}

// translate rewrites what was read for a target of the other flavour, and returns what is lost. Programs keep their
// texts: text of users is never rewritten.
func (c *copier) translate() (lost losses) {
	into := c.options.Into
	programs, s := &c.programs, c.snapshot
	if like := collation(into, programs.collation); like != programs.collation {
		lost.add("the default collation %s, which becomes %s", programs.collation, like)
		programs.collation = like
	}
	s.tables = slices.DeleteFunc(s.tables, func(t table) bool {
		if t.sequence {
			lost.add("sequence %s", t.name)
		}
		return t.sequence
	})
	for n := range s.tables {
		s.tables[n].translate(into, &lost)
		for k := range s.tables[n].columns {
			if c := &s.tables[n].columns[k]; c.kind == "json" { // MariaDB keeps the text
				c.kind = "longtext"
			}
		}
	}
	for _, l := range programs.libraries {
		lost.add("%s", l)
	}
	programs.libraries = nil
	if programs.comment != "" {
		lost.add("the comment of the database")
		programs.comment = ""
	}
	for _, list := range [][]program{programs.views, programs.routines, programs.triggers, programs.events} {
		for n := range list {
			p := &list[n]
			p.connection, p.database = collation(into, p.connection), collation(into, p.database)
			kept := slices.DeleteFunc(strings.Split(p.sqlMode, ","),
				func(m string) bool { return slices.Contains(modes[into], m) })
			p.sqlMode = strings.Join(kept, ",")
		}
	}
	return lost
}

// masked matches strings and quoted names in a definition.
var masked = regexp.MustCompile("(?s)'(?:[^'\\\\]|\\\\.|'')*'|`(?:[^`]|``)*`")

// maskedTexts are the strings and quoted names for which there are marks in a definition.
type maskedTexts []string

var mark = regexp.MustCompile("\x00\\d+\x00")

// mask replaces strings and quoted names by marks, which have no parentheses and are on one line.
func mask(create string) (string, maskedTexts) {
	var texts maskedTexts
	create = masked.ReplaceAllStringFunc(create, func(text string) string {
		texts = append(texts, text)
		return fmt.Sprintf("\x00%d\x00", len(texts)-1)
	})
	return create, texts
}

// restore puts them back.
func (texts maskedTexts) restore(part string) string {
	return mark.ReplaceAllStringFunc(part, func(mark string) string {
		return texts[index(mark)]
	})
}

// index is the place of the text for which a mark stands.
func index(mark string) (n int) {
	_, _ = fmt.Sscanf(mark, "\x00%d\x00", &n) // mask has made it
	return n
}

// translate rewrites the definition of a table.
func (t *table) translate(into string, lost *losses) {
	create, texts := mask(t.create)
	create = foreignCollation[into].ReplaceAllStringFunc(create, func(name string) string {
		like := collation(into, name)
		lost.add("the collation %s in table %s, which becomes %s", name, t.name, like)
		return like
	})
	if t.versioned && into == MySQL { // without the period, which keys end with
		for _, c := range t.columns[len(t.columns)-2:] {
			for n := range texts {
				if texts[n] == quoteName(c.name) {
					create = strings.ReplaceAll(create, fmt.Sprintf(",\x00%d\x00", n), "")
				}
			}
		}
		t.versioned, t.columns = false, t.columns[:len(t.columns)-2]
	}
	var lines []string
	for _, line := range strings.Split(create, "\n") {
		drop := false
		for _, r := range lineRules[into] {
			if drop || !r.pattern.MatchString(line) {
				continue
			}
			if r.lost != "" {
				lost.add("table %s: %s", t.name, r.lost)
			}
			if drop = r.replacement == dropLine; !drop {
				line = r.pattern.ReplaceAllString(line, r.replacement)
			}
		}
		if !drop {
			lines = append(lines, line)
		}
	}
	create = strings.Join(lines, "\n")
	create = danglingComma.ReplaceAllString(create, "\n)")
	t.create = texts.restore(create)
}

// danglingComma is left when the last line of the columns and keys was dropped.
var danglingComma = regexp.MustCompile(`,\n\)`)

// tryPrograms creates all programs, and then drops those that would change rows. It leaves out those that the other
// flavour does not accept, and returns them.
func (c *copier) tryPrograms(ctx context.Context, conn *sql.Conn) (lost losses, err error) {
	p := &c.programs
	for _, list := range []*[]program{&p.routines, &p.views, &p.triggers, &p.events} {
		failed, err := c.tryAll(ctx, conn, *list)
		if err != nil {
			return nil, err
		}
		*list = slices.DeleteFunc(*list, func(p program) bool { return slices.Contains(failed, p.String()) })
		for _, name := range failed {
			lost.add("%s, whose text the other flavour does not accept", name)
		}
	}
	return lost, c.dropPrograms(ctx, conn)
}

// tryAll creates programs, and names those that cannot be created.
func (c *copier) tryAll(ctx context.Context, conn *sql.Conn, list []program) (failed []string, err error) {
	for todo := list; len(todo) > 0; {
		var again []program
		for _, p := range todo {
			if p.broken != nil { // in the source
				continue
			}
			if p.kind == "EVENT" { // which must not run
				p.text = []byte(enabledEvent.ReplaceAllString(withoutDefiner(string(p.text)), "${1}DISABLE"))
			}
			err := p.make(ctx, c, conn)
			if err != nil && number(err) == 0 {
				return nil, err
			}
			if err != nil {
				again = append(again, p)
			}
		}
		if len(again) == len(todo) {
			for _, p := range again {
				failed = append(failed, p.String())
			}
			return failed, nil
		}
		todo = again
	}
	return nil, nil
}

package binlog

import (
	"regexp"
	"slices"
	"strings"
)

// columns are the types of a table's columns by their names, in capitals.
type columns map[string]string

// escapedByMySQL has what MySQL's information_schema escapes in expressions, with the quotation marks of their strings.
var escapedByMySQL = strings.NewReplacer(`\\`, `\`, `\'`, `'`)

var (
	// zoneFunctions depend on the time zone of a session, whatever their arguments are.
	zoneFunctions = []string{"FROM_UNIXTIME", "UNIX_TIMESTAMP"}

	// ofDates matches functions, types and units that make a date of a TIME, the present one of the session, or may if
	// they are in the same expression.
	ofDates = regexp.MustCompile(`^(?:CONVERT_TZ|DATE|DAY|FROM_DAYS|LAST_DAY|MAKEDATE|MONTH|QUARTER|STR_TO_DATE|` +
		`TIMESTAMP|TO_|WEEK|YEAR)`)

	// ofTimes make a number or a text of a TIME, and addTimes add a TIME to what is before it.
	ofTimes = strings.Fields(`CONCAT CONCAT_WS EXTRACT HOUR ISNULL JSON_ARRAY JSON_OBJECT LEFT MICROSECOND MINUTE RIGHT
		SECOND SUBSTR TIME_FORMAT TIME_TO_SEC`)
	addTimes = strings.Fields("ADDTIME SUBTIME TIMESTAMP")
)

// zoned reports whether a stored column of a type depends on the time zone of sessions: its expression has a TIMESTAMP,
// or may make a date of a TIME.
func (c columns) zoned(kind string, all []token) bool {
	return kind == "TIMESTAMP" || slices.ContainsFunc(all, func(t token) bool {
		return c.typeOf(t) == "TIMESTAMP" || t.quoted == 0 && slices.Contains(zoneFunctions, t.text)
	}) || slices.ContainsFunc(all, func(t token) bool {
		return c.typeOf(t) == "TIME" && c.makesDate(kind, &definition{tokens: all}, slices.Index(all, t))
	})
}

// typeOf is the type of the column that a token names, "" if it names none.
func (c columns) typeOf(t token) string {
	if t.quoted == 0 || t.quoted == '\'' {
		return ""
	}
	return c[strings.ToUpper(t.name)]
}

// makesDate reports whether an expression may make a date of the TIME at an index. It looks at what is around that,
// from the innermost parentheses to the type of the column.
func (c columns) makesDate(kind string, d *definition, at int) bool {
	for first, last := at, at; ; {
		open, argument, end := first-1, 1, last+1
		for depth := 0; open >= 0 && (depth > 0 || d.word(open) != "("); open-- {
			switch d.word(open) {
			case ")":
				depth++
			case "(":
				depth--
			case ",":
				if depth == 0 {
					argument++
				}
			}
		}
		for depth := 0; end < len(d.tokens) && (depth > 0 || d.word(end) != ")"); end++ {
			switch d.word(end) {
			case "(":
				depth++
			case ")":
				depth--
			}
		}
		before, behind, function := d.word(first-1), d.word(last+1), d.word(open-1)
		switch isArgument := (before == "(" || before == ",") && (behind == ")" || behind == ","); {
		case before == "INTERVAL" || behind == "IS",
			isArgument && slices.Contains(ofTimes, function),
			isArgument && argument == 2 && slices.Contains(addTimes, function):
			return false
		case function == "TIMESTAMPDIFF" && end == open+6 && !ofDates.MatchString(d.word(open+1)) &&
			c.typeOf(d.tokens[open+3]) == "TIME" && c.typeOf(d.tokens[open+5]) == "TIME":
			return false
		}
		isDate := func(t token) bool { return ofDates.MatchString(t.text) || ofDates.MatchString(c.typeOf(t)) }
		if slices.ContainsFunc(d.tokens[max(open-1, 0):first], isDate) ||
			slices.ContainsFunc(d.tokens[last+1:end], isDate) {
			return true
		}
		if open < 0 {
			return ofDates.MatchString(kind)
		}
		if slices.Contains(ofTimes, function) {
			return false
		}
		first, last = open, end
		if function != "" && isWord(function[0]) {
			first--
		}
	}
}

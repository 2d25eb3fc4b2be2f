package binlog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// refuse returns an error if the result of a statement cannot be known: the log has its text, and not what it has put
// into rows. Servers' own replicas get other values, too.
func (r *Replay) refuse(ctx context.Context, q query, all []token) (err error) {
	d := definition{tokens: all}
	d.readKind()
	if d.name, err = r.toUTF8(ctx, d.name, q.client); err != nil {
		return err
	}
	if d.kind == "table" && !d.creates {
		if d.rows, err = r.rowsOf(ctx, d.name); err != nil {
			return err
		}
	}
	if d.changesRows {
		what := "a statement that changes rows, and not these rows"
		if !r.MySQL {
			what += ", as MariaDB writes for tables with a history by transactions"
		}
		return &UnsupportedError{What: what}
	}
	cause := d.settingOfText
	if cause == "" {
		cause = d.unknowableWord()
	}
	if cause == "" && d.rows > 1 && d.numbersRows() {
		ordered, err := r.ordered(ctx, d.name)
		if err != nil {
			return err
		}
		if !ordered {
			cause = "the order in which its rows are stored, as it has no primary key"
		}
	}
	if cause == "" && r.MySQL && d.rows > 0 && q.set["time_zone"] == "" {
		for _, column := range d.becomeDates() {
			if column, err = r.toUTF8(ctx, column, q.client); err != nil {
				return err
			}
			var ofTimes bool
			err := r.rows.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.columns WHERE table_schema = ?
				AND table_name = ? AND column_name = ? AND data_type = 'time')`, r.Target, d.name, column).Scan(&ofTimes)
			if err != nil {
				return fmt.Errorf("read the columns of the table %s: %w", d.name, err)
			}
			if ofTimes {
				cause = "the time zone, as a time becomes a date"
			}
		}
	}
	if cause == "" {
		return nil
	}
	what := "a statement"
	if d.kind != "" {
		what = fmt.Sprintf("a change of the %s `%s`", d.kind, d.name)
	}
	return &UnsupportedError{What: what + " whose result depends on " + cause}
}

// definition is a statement that creates or changes a table or an event.
type definition struct {
	tokens  []token
	at      int
	kind    string // "table", "event" or "" for another statement
	name    string
	creates bool // then the table has no rows, or those that follow in the log
	rows    int  // that the table has: 2 stands for more
	ignore  bool // ALTER IGNORE TABLE

	changesRows bool // it is no definition: MariaDB logs so what changes tables with a history by transactions

	// settingOfText is a setting of SET STATEMENT on which it depends how a text is read; "" for none. The server has read
	// the statement before it applies that.
	settingOfText string
}

// word returns the token at an index in capitals, "" for quoted ones and beyond the ends.
func (d *definition) word(at int) string {
	if at >= 0 && at < len(d.tokens) && d.tokens[at].quoted == 0 {
		return d.tokens[at].text
	}
	return ""
}

// accept moves behind a word if it is next.
func (d *definition) accept(words ...string) bool {
	for n, word := range words {
		if d.word(d.at+n) != word {
			return false
		}
	}
	d.at += len(words)
	return true
}

// readKind reads the beginning of the statement, up to the name.
func (d *definition) readKind() {
	if d.accept("SET", "STATEMENT") {
		for d.at < len(d.tokens) && !d.accept("FOR") {
			if word := d.word(d.at); word == "SQL_MODE" || word == "OLD_MODE" || strings.HasPrefix(word, "CHARACTER_SET_") ||
				strings.HasPrefix(word, "COLLATION_") {
				d.settingOfText = "SET STATEMENT " + strings.ToLower(word)
			}
			d.at++
		}
	}
	d.changesRows = slices.Contains(rowStatements, d.word(d.at))
	d.creates = d.accept("CREATE")
	if !d.creates && !d.accept("ALTER") {
		return
	}
	d.accept("OR", "REPLACE")
	d.accept("ONLINE")
	d.ignore = d.accept("IGNORE")
	switch {
	case d.accept("TABLE"):
		d.kind = "table"
	case d.accept("EVENT"):
		d.kind = "event"
	}
	_ = d.accept("IF", "NOT", "EXISTS") || d.accept("IF", "EXISTS")
	if d.at+2 < len(d.tokens) && d.word(d.at+1) == "." {
		d.at += 2
	}
	if d.kind != "" && d.at < len(d.tokens) {
		d.name = d.tokens[d.at].name
		d.at++
	}
}

// rowStatements begin statements that change rows, or may.
var rowStatements = strings.Fields("INSERT REPLACE UPDATE DELETE LOAD WITH CALL DO SELECT EXECUTE")

// unknowableWord returns a word of an expression that the statement evaluates, and whose value is not known; "" for
// none.
func (d *definition) unknowableWord() string {
	switch d.kind {
	case "":
		return ""
	case "event":
		return d.ofSchedule()
	}
	adds := false
	for at := d.at; at < len(d.tokens); at++ {
		var expression []token
		switch word := d.word(at); {
		case word == "THAN" || word == "IN" && d.word(at-1) == "VALUES": // of a partition
			expression = d.term(at + 1)
		case d.rows == 0:
		case slices.Contains([]string{"ADD", "ALTER", "CHANGE", "MODIFY"}, word):
			adds = word == "ADD"
		case word == "DEFAULT" && adds:
			expression = d.term(at + 1)
		case word == "AS" && d.word(at+1) == "(":
			expression = d.term(at + 1)
			if stored := d.word(at + 1 + len(expression)); stored != "STORED" && stored != "PERSISTENT" {
				expression = nil
			}
		}
		if found := unknown(expression); found != "" {
			return found
		}
	}
	return ""
}

// ofSchedule is unknowableWord for an event.
func (d *definition) ofSchedule() string {
	for at := d.at; at < len(d.tokens); at++ {
		switch d.word(at) {
		case "DO", "COMMENT", "RENAME":
			return ""
		case "SCHEDULE":
			rest := d.tokens[at+1:]
			end := slices.IndexFunc(rest, func(t token) bool {
				return t.quoted == 0 && slices.Contains([]string{"ON", "ENABLE", "DISABLE", "COMMENT", "DO", "RENAME"}, t.text)
			})
			if end >= 0 {
				rest = rest[:end]
			}
			return unknown(rest)
		}
	}
	return ""
}

// term returns the tokens of what begins at an index: up to the closing parenthesis, or one.
func (d *definition) term(at int) []token {
	end := at
	if d.word(at+1) == "." {
		end += 2
	}
	if d.word(end) != "(" && d.word(end+1) == "(" {
		end++
	}
	for depth := 0; end < len(d.tokens); end++ {
		switch d.word(end) {
		case "(":
			depth++
		case ")":
			depth--
		}
		if depth == 0 {
			return d.tokens[at : end+1]
		}
	}
	return d.tokens[min(at, len(d.tokens)):]
}

// numbersRows reports whether an ALTER TABLE gives its rows numbers, or keeps the first ones of several.
func (d *definition) numbersRows() bool {
	for at := d.at; at < len(d.tokens); at++ {
		next := d.word(at + 1)
		if d.word(at) == "AUTO_INCREMENT" && next != "=" && strings.Trim(next, "0123456789") == next {
			return true
		}
	}
	return d.ignore
}

// becomeDates returns the names of the columns whose type an ALTER TABLE changes to DATE.
func (d *definition) becomeDates() (names []string) {
	for at := d.at; at < len(d.tokens); at++ {
		d.at = at
		renames := d.accept("CHANGE")
		if !renames && !d.accept("MODIFY") {
			continue
		}
		d.accept("COLUMN")
		kind := d.at + 1
		if renames {
			kind++
		}
		if d.word(kind) == "DATE" {
			names = append(names, d.tokens[d.at].name)
		}
	}
	return names
}

// rowsOf counts the rows of a table at the target, up to 2. A table that does not exist has none.
func (r *Replay) rowsOf(ctx context.Context, table string) (n int, err error) {
	err = r.rows.QueryRowContext(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT 1 FROM %s.%s LIMIT 2) rows_of_it",
		quoteName(r.Target), quoteName(table))).Scan(&n)
	const missing = 1146
	if refusal, _ := errors.AsType[*mysql.MySQLError](err); refusal != nil && refusal.Number == missing {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the table %s: %w", table, err)
	}
	return n, nil
}

// ordered reports whether the rows of a table are read in an order that does not depend on how they are stored: that of
// InnoDB's clustered index.
func (r *Replay) ordered(ctx context.Context, table string) (yes bool, err error) {
	err = r.rows.QueryRowContext(ctx, `SELECT EXISTS (
		SELECT 1 FROM information_schema.statistics s JOIN information_schema.tables t USING (table_schema, table_name)
		WHERE s.table_schema = ? AND s.table_name = ? AND t.engine = 'InnoDB' AND s.non_unique = 0
		GROUP BY s.index_name HAVING MAX(s.nullable) = '' AND COUNT(s.column_name) = COUNT(*)
			AND (MAX(s.index_name) = 'PRIMARY' OR COUNT(s.sub_part) = 0))`, r.Target, table).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("read the keys of the table %s: %w", table, err)
	}
	return yes, nil
}

// unknown returns the first word of an expression whose value may depend on something that is not in the log; "" for
// none.
func unknown(expression []token) string {
	for n, t := range expression {
		call := n+1 < len(expression) && expression[n+1].quoted == 0 && expression[n+1].text == "("
		switch {
		case t.quoted == '`' && call:
			return "the function " + t.name
		case t.quoted != 0:
		case t.text == "@" || t.text == "/" || slices.Contains(unknownWords, t.text):
			return t.text
		case call && isWord(t.text[0]) && !known(t.text):
			return t.text + "()"
		}
	}
	return ""
}

// unknownWords need no parentheses. A division depends on div_precision_increment.
var unknownWords = strings.Fields(`CURRENT_ROLE CURRENT_USER CURRVAL NEXT NEXTVAL PREVIOUS ROWNUM SELECT SYSDATE`)

// known reports whether a function depends on nothing but its arguments and what the log has: the statement's time, and
// its session's time zone, locale, sql_mode and character sets. So are words that no function follows but a parenthesis
// can.
func known(function string) bool {
	return strings.HasPrefix(function, "JSON_") || strings.HasPrefix(function, "ST_") ||
		slices.Contains(knownFunctions, function)
}

var knownFunctions = strings.Fields(`
	ABS ACOS ADDDATE ADDTIME AND AS ASCII ASIN AT ATAN ATAN2 BETWEEN BIN BINARY BIT_COUNT BIT_LENGTH CASE CAST CEIL
	CEILING CHAR CHARACTER_LENGTH CHAR_LENGTH COALESCE CONCAT CONCAT_WS CONV CONVERT COS COT CRC32 CURDATE CURRENT_DATE
	CURRENT_TIME CURRENT_TIMESTAMP CURTIME DATE DATEDIFF DATE_ADD DATE_FORMAT DATE_SUB DATETIME DAY DAYNAME DAYOFMONTH
	DAYOFWEEK DAYOFYEAR DECIMAL DEGREES DIV ELSE ELT ENDS EVERY EXP FIELD FIND_IN_SET FLOOR FORMAT FROM_BASE64
	FROM_DAYS FROM_UNIXTIME GEOMCOLLECTION GEOMETRYCOLLECTION GREATEST HEX HOUR IF IFNULL IN INET6_ATON INET6_NTOA
	INET_ATON INET_NTOA INSERT INSTR INTERVAL IS ISNULL LAST_DAY LCASE LEAST LEFT LENGTH LIKE LINESTRING LN LOCALTIME
	LOCALTIMESTAMP LOCATE LOG LOG10 LOG2 LOWER LPAD LTRIM MAKEDATE MAKETIME MAXVALUE MD5 MICROSECOND MID MINUTE MOD MONTH
	MONTHNAME MULTILINESTRING MULTIPOINT MULTIPOLYGON NOT NOW NULLIF OCT OCTET_LENGTH OR ORD PERIOD_ADD PERIOD_DIFF PI
	POINT POLYGON POSITION POW POWER QUARTER QUOTE RADIANS REGEXP REPEAT REPLACE REVERSE RIGHT RLIKE ROUND RPAD RTRIM
	SECOND SEC_TO_TIME SHA SHA1 SHA2 SIGN SIN SOUNDEX SPACE SQRT STARTS STRCMP STR_TO_DATE SUBDATE SUBSTR SUBSTRING
	SUBSTRING_INDEX SUBTIME TAN THEN TIME TIMEDIFF TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TIME_FORMAT TIME_TO_SEC
	TO_BASE64 TO_DAYS TO_SECONDS TRIM TRUNCATE UCASE UNHEX UNIX_TIMESTAMP UPPER UTC_DATE UTC_TIME UTC_TIMESTAMP VARCHAR
	WEEKDAY WEEKOFYEAR WHEN XOR YEAR`)

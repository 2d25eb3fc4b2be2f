package binlog

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"unicode/utf8"
)

// query is an event with the text of a statement, and the settings of its session that matter.
type query struct {
	database string
	text     string // in the character set of the session
	failure  uint16 // the error with which the statement ended, 0 for none
	set      map[string]string
	sqlMode  uint64
	client   uint64 // the collation that says how the text is read; 0 for none
	// collations are the ids of collations, each pair with that which a character set has as compiled, and that which it
	// had in the session.
	collations [][2]uint64
	repeated   bool // the log has the statement once more: this one is the begin, or the failed end, of an ALTER TABLE
}

// query reads the event.
// https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Query__event.html
func (e event) query() (q query, err error) {
	const fixed = 4 + 4 + 1 + 2 + 2
	if len(e.body) < fixed {
		return q, e.errShort()
	}
	name, length := int(e.body[8]), int(binary.LittleEndian.Uint16(e.body[11:]))
	q.failure = binary.LittleEndian.Uint16(e.body[9:])
	if len(e.body) < fixed+length+name+1 {
		return q, e.errShort()
	}
	q.set = map[string]string{"timestamp": fmt.Sprint(e.when)}
	v := variables{rest: e.body[fixed : fixed+length]}
	for len(v.rest) > 0 {
		if err := q.readVariable(v.number(1), &v, e.when); err != nil {
			return q, err
		}
	}
	if v.short {
		return q, e.errShort()
	}
	rest := e.body[fixed+length:]
	q.database, q.text = string(rest[:name]), string(rest[name+1:])
	return q, nil
}

// generated says that the server has made the text itself. It is in UTF-8 then, whatever the client uses.
func (q *query) generated() {
	q.client = utf8mb4
	q.assign("collation_connection", utf8mb4)
}

// readVariable reads the status variable with a code. The codes are the constants Q_… of MySQL and, from 128 on, of
// MariaDB. Those without effect here are read over; TestStatusVariables says why.
func (q *query) readVariable(code uint64, v *variables, when uint32) error {
	switch code {
	case 0:
		return q.readFlags(v.number(4))
	case 1:
		q.sqlMode = v.number(8)
		q.assign("sql_mode", q.sqlMode)
	case 2: // the catalog, as before MySQL 5.0.4: a zero follows
		v.text()
		v.take(1)
	case 3:
		q.assign("auto_increment_increment", v.number(2))
		q.assign("auto_increment_offset", v.number(2))
	case 4:
		q.client = v.number(2)
		q.assign("collation_connection", v.number(2))
		q.assign("collation_server", v.number(2))
	case 5:
		q.set["time_zone"] = literal(strings.NewReplacer("'", "", `\`, "").Replace(v.text()))
	case 6: // the catalog
		v.text()
	case 7:
		q.assign("lc_time_names", v.number(2))
	case 8:
		q.assign("collation_database", v.number(2))
	case 9, 17, 129: // the tables to update; the id of a definition's transaction on MySQL, on MariaDB
		v.take(8)
	case 10: // the bytes that the source has written
		v.take(4)
	case 11: // the invoker's user and host
		v.text()
		v.text()
	case 12: // names of changed databases, or 254 for too many
		for count := v.number(1); count > 0 && count < 254 && !v.short; count-- {
			v.cut()
		}
	case 13, 128:
		q.set["timestamp"] = fmt.Sprintf("%d.%06d", when, v.number(3))
	case 16:
		q.assign("explicit_defaults_for_timestamp", v.number(1))
	case 18:
		q.assign("default_collation_for_utf8mb4", v.number(2))
	case 19, 20, 21: // sql_require_primary_key, default_table_encryption, enable_cascade_triggers
		v.take(1)
	case 130:
		const begins, commits, fails = 2, 4, 8
		phase := v.number(1)
		q.repeated = phase&(begins|fails) != 0
		if phase&(commits|fails) != 0 {
			v.take(8) // the number of the begin
		}
	case 131:
		for count := v.number(1); count > 0 && !v.short; count-- {
			q.collations = append(q.collations, [2]uint64{v.number(2), v.number(2)})
		}
	default:
		return &UnsupportedError{What: fmt.Sprintf("a statement with the status variable %d, which is unknown", code)}
	}
	return nil
}

func (q *query) assign(name string, value uint64) { q.set[name] = fmt.Sprint(value) }

// readFlags reads the settings of a session that a query has as flags: the constants OPTION_… of both flavours.
func (q *query) readFlags(flags uint64) error {
	const known, ofMariaDB = 1<<14 | 1<<19 | 1<<26 | 1<<27, 1<<15 | 1<<24 | 1<<28 | 1<<30
	if unknown := flags &^ (known | ofMariaDB); unknown != 0 {
		return &UnsupportedError{What: fmt.Sprintf("a statement with the flags %#x, which are unknown", unknown)}
	}
	// Bit 19 is that of autocommit, which definitions do not heed.
	for bit, name := range map[int]string{14: "sql_auto_is_null", 24: "explicit_defaults_for_timestamp",
		28: "sql_if_exists", 30: "system_versioning_insert_history"} {
		if on := flags >> bit & 1; on == 1 || bit == 14 {
			q.assign(name, on)
		}
	}
	for bit, name := range map[int]string{15: "check_constraint_checks", 26: "foreign_key_checks", 27: "unique_checks"} {
		if off := flags >> bit & 1; off == 1 || bit != 15 {
			q.assign(name, 1-off)
		}
	}
	return nil
}

// variables are the settings of a query that are not read yet.
type variables struct {
	rest  []byte
	short bool // there was less than was to be read
}

// take returns the next n bytes, or as many zeros if there are fewer.
func (v *variables) take(n int) []byte {
	if len(v.rest) < n {
		v.rest, v.short = nil, true
		return make([]byte, n)
	}
	taken := v.rest[:n]
	v.rest = v.rest[n:]
	return taken
}

// number returns the next n bytes as a number.
func (v *variables) number(n int) uint64 {
	var raw [8]byte
	copy(raw[:], v.take(n))
	return binary.LittleEndian.Uint64(raw[:])
}

// text returns the next text, before which its length is.
func (v *variables) text() string { return string(v.take(int(v.number(1)))) }

// cut reads over a text that is ended by a zero.
func (v *variables) cut() {
	if _, rest, ended := bytes.Cut(v.rest, []byte{0}); ended {
		v.rest = rest
	} else {
		v.take(len(v.rest) + 1)
	}
}

// tokens splits a statement of the session, or one that the server has written for it: these are in UTF-8.
func (q query) tokens(text string) []token {
	client := q.client
	if utf8.ValidString(text) {
		client = utf8mb4
	}
	return tokens(text, q.sqlMode, client)
}

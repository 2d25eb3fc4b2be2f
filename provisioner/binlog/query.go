package binlog

import (
	"encoding/binary"
	"fmt"
	"strings"
)

// query is an event with the text of a statement, and the settings of its session that matter.
type query struct {
	database string
	text     string // in the character set of the session
	failed   bool   // the statement ended with an error
	set      []string
	client   uint64 // the collation that says how the text is read; 0 for none
}

// Settings of a session that a query has as flags.
const (
	noForeignKeys = 1 << 26
	noUnique      = 1 << 27
	autoIsNull    = 1 << 14
)

// query reads the event.
// https://dev.mysql.com/doc/dev/mysql-server/latest/classmysql_1_1binlog_1_1event_1_1Query__event.html
func (e event) query() (q query, err error) {
	const fixed = 4 + 4 + 1 + 2 + 2
	if len(e.body) < fixed {
		return q, e.errShort()
	}
	name, variables := int(e.body[8]), int(binary.LittleEndian.Uint16(e.body[11:]))
	q.failed = binary.LittleEndian.Uint16(e.body[9:]) != 0
	if len(e.body) < fixed+variables+name+1 {
		return q, e.errShort()
	}
	micros := q.readVariables(e.body[fixed : fixed+variables])
	rest := e.body[fixed+variables:]
	q.database, q.text = string(rest[:name]), string(rest[name+1:])
	q.set = append(q.set, fmt.Sprintf("timestamp = %d.%06d", e.when, micros))
	return q, nil
}

// readVariables reads the settings in the order in which servers write them. The codes are the constants Q_… of MySQL
// and, from 128 on, of MariaDB. It stops at the first unknown one: later servers add theirs at the end.
func (q *query) readVariables(v variables) (micros uint32) {
	add := func(format string, args ...any) { q.set = append(q.set, fmt.Sprintf(format, args...)) }
	for len(v) > 0 {
		switch v.number(1) {
		case 0: // flags2
			flags := v.number(4)
			add("foreign_key_checks = %d, unique_checks = %d, sql_auto_is_null = %d", off(flags&noForeignKeys),
				off(flags&noUnique), 1-off(flags&autoIsNull))
		case 1: // sql_mode
			add("sql_mode = %d", v.number(8))
		case 2: // catalog, ended by a zero
			v.take(int(v.number(1)) + 1)
		case 3:
			if increment, offset := v.number(2), v.number(2); increment != 1 || offset != 1 {
				add("auto_increment_increment = %d, auto_increment_offset = %d", increment, offset)
			}
		case 4:
			q.client = v.number(2)
			add("collation_connection = %d, collation_server = %d", v.number(2), v.number(2))
		case 5:
			zone := string(v.take(int(v.number(1))))
			add("time_zone = '%s'", strings.NewReplacer("'", "", `\`, "").Replace(zone))
		case 6: // catalog
			v.take(int(v.number(1)))
		case 7:
			add("lc_time_names = %d", v.number(2))
		case 8: // character set of the database
			v.take(2)
		case 9, 17, 129: // tables to update; the id of a definition's transaction on MySQL, on MariaDB
			v.take(8)
		case 10: // bytes written by the source
			v.take(4)
		case 11: // user and host
			v.take(int(v.number(1)))
			v.take(int(v.number(1)))
		case 12: // names of changed databases
			count := v.number(1)
			for ; count > 0 && count < 254; count-- {
				_, v = cut(v)
			}
		case 13, 128: // microseconds of the timestamp
			micros = uint32(v.number(3))
		case 16, 19, 20: // explicit_defaults_for_timestamp, sql_require_primary_key, default_table_encryption
			v.take(1)
		case 18: // default_collation_for_utf8mb4
			v.take(2)
		default:
			return micros
		}
	}
	return micros
}

// variables are the settings of a query that are not read yet.
type variables []byte

// take returns the next n bytes, or as many zeros if there are fewer.
func (v *variables) take(n int) []byte {
	if len(*v) < n {
		*v = nil
		return make([]byte, n)
	}
	taken := (*v)[:n]
	*v = (*v)[n:]
	return taken
}

// number returns the next n bytes as a number.
func (v *variables) number(n int) uint64 {
	var raw [8]byte
	copy(raw[:], v.take(n))
	return binary.LittleEndian.Uint64(raw[:])
}

func off(flag uint64) int {
	if flag != 0 {
		return 0
	}
	return 1
}

func cut(p variables) (before, after variables) {
	for n, b := range p {
		if b == 0 {
			return p[:n], p[n+1:]
		}
	}
	return p, nil
}

package binlog

import (
	"context"
	"fmt"
	"strings"
)

// rowChanges are events with rows, and the settings of the session that writes them.
type rowChanges struct {
	events   [][]byte
	settings string
}

func (c rowChanges) bytes() (n int) {
	for _, e := range c.events {
		n += len(e)
	}
	return n
}

// rowSession is how the session was set that changed the rows of a transaction, as far as the log says so: MySQL does
// at the beginning of a transaction, and MariaDB does not. Servers compute generated columns and checks again where
// rows are written.
type rowSession struct{ query }

// settings returns the assignments for the session that writes the rows. zone is for transactions that have used none;
// twice says that the statement has deleted rows both itself and by a foreign key: since MySQL 9.6, the log has these
// twice.
func (s rowSession) settings(zone string, twice bool) string {
	locale, mode := "0", ""
	if s.set["lc_time_names"] != "" {
		locale = s.set["lc_time_names"]
	}
	if twice {
		mode = ", rbr_exec_mode = 'IDEMPOTENT'"
	}
	const noAutoValueOnZero, allowInvalidDates = 1 << 19, 1 << 25
	return fmt.Sprintf("time_zone = %s, lc_time_names = %s, sql_mode = %d%s", zone, locale,
		s.sqlMode|noAutoValueOnZero|allowInvalidDates, mode)
}

// refusal is why rows of a table cannot be replayed, as its columns are.
type refusal struct {
	cause    string // "" for none
	zoned    bool   // it has a stored column that depends on the time zone of sessions
	cascades int    // see Replay.cascades
}

// refuseRows refuses rows that the server would not write as the source did: those of a table whose stored columns
// it would compute in another time zone, which MariaDB before 11.0 takes from the log, and those of tables that it
// does not write as the log says.
func (r *Replay) refuseRows(ctx context.Context, table string, kind byte) error {
	refused, known := r.refused[table]
	if !known {
		var err error
		if r.MySQL || r.recomputes {
			refused, err = r.refusalOf(ctx, table)
		}
		if err == nil && !r.MySQL {
			refused.cascades, err = r.cascades(ctx, table)
		}
		if err != nil {
			return fmt.Errorf("read the definition of the table %s: %w", table, err)
		}
		r.refused[table] = refused
	}
	cause := refused.cause
	if refused.zoned && rowsEvents[kind] && r.session.set["time_zone"] == "" {
		cause = "has a stored column that depends on the time zone of sessions"
	}
	if refused.cascades&cascading[kind] != 0 {
		cause = "has foreign keys that may end former rows of other tables"
	}
	if cause == "" {
		return nil
	}
	return &UnsupportedError{What: fmt.Sprintf("rows of the table `%s`, which %s", table, cause)}
}

// refusalOf looks at the columns of a table: whether a stored one depends on the time zone of sessions, or all are
// virtual: from 11.0 on, MariaDB then does not find the rows.
func (r *Replay) refusalOf(ctx context.Context, table string) (found refusal, err error) {
	rows, err := r.rows.QueryContext(ctx, `SELECT column_name, data_type,
		CASE WHEN extra LIKE '%STORED%' THEN generation_expression END, extra LIKE '%VIRTUAL%' FROM information_schema.columns
		WHERE table_schema = ? AND table_name = ?`, r.Target, table)
	if err != nil {
		return found, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	c, expressions := columns{}, map[string]string{}
	virtual := 0
	for rows.Next() {
		var name, kind string
		var isVirtual bool
		var expression *string
		if err := rows.Scan(&name, &kind, &expression, &isVirtual); err != nil {
			return found, err
		}
		name = strings.ToUpper(name)
		c[name] = strings.ToUpper(kind)
		if isVirtual {
			virtual++
		}
		if expression != nil {
			expressions[name] = *expression
		}
	}
	for name, expression := range expressions {
		if r.MySQL {
			expression = escapedByMySQL.Replace(expression)
		}
		found.zoned = found.zoned || c.zoned(c[name], tokens(expression, 0, 0))
	}
	if r.recomputes && len(c) > 0 && len(c) == virtual {
		found.cause = "has only virtual columns"
	}
	return found, rows.Err()
}

// cascades finds out which foreign keys of a table change rows of versioned tables with those of the table, themselves
// or by further ones: MariaDB does not log when these were changed, and would end some before they began.
func (r *Replay) cascades(ctx context.Context, table string) (found int, err error) {
	const file = "CONCAT(CAST(CONVERT(%s USING filename) AS BINARY), '/', CAST(CONVERT(%s USING filename) AS BINARY))"
	err = r.rows.QueryRowContext(ctx, `WITH RECURSIVE changed (type, name) AS (
		SELECT type & 15, CAST(for_name AS BINARY) FROM information_schema.innodb_sys_foreign
			WHERE type & 15 <> 0 AND CAST(ref_name AS BINARY) = `+fmt.Sprintf(file, "?", "?")+`
		UNION SELECT changed.type, CAST(for_name AS BINARY) FROM changed JOIN information_schema.innodb_sys_foreign f
			ON f.type & 15 <> 0 AND CAST(f.ref_name AS BINARY) = changed.name)
		SELECT COALESCE(BIT_OR(type), 0) FROM changed WHERE EXISTS (SELECT 1 FROM information_schema.tables
			WHERE table_schema = ? AND table_type = 'SYSTEM VERSIONED' AND name = `+
		fmt.Sprintf(file, "table_schema", "table_name")+")",
		r.Target, table, r.Target).Scan(&found)
	return found, err
}

// cascading has, of the types of InnoDB's foreign keys, those that act on an event of MariaDB: CASCADE and SET NULL of
// ON DELETE and of ON UPDATE.
var cascading = map[byte]int{24: 4 | 8, 25: 1 | 2, 31: 4 | 8, 32: 1 | 2, 167: 4 | 8, 168: 1 | 2, 170: 4 | 8, 171: 1 | 2}

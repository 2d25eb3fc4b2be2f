package compare

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-sql-driver/mysql"
)

// cell is a value of a row.
type cell struct {
	column string
	text   string // the bytes of strings, and the digits of numbers
	null   bool
}

func (c cell) String() string {
	if c.null {
		return "NULL"
	}
	return strconv.QuoteToASCII(c.text)
}

// each calls fn with the rows of a query, as text.
func (d *describer) each(ctx context.Context, query string, fn func(row []cell)) error {
	rows, err := d.conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	return readAll(rows, fn)
}

// eachValue is like each, but the binary protocol brings the rows: floating-point numbers have all their bits, and dates
// that do not exist are what they are. What MySQL cannot prepare comes as text.
func (d *describer) eachValue(ctx context.Context, query string, fn func(row []cell)) error {
	statement, err := d.conn.PrepareContext(ctx, query)
	if number(err) == errNotPreparable {
		return d.each(ctx, query, fn)
	}
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	rows, err := statement.QueryContext(ctx)
	if err != nil {
		return err
	}
	return readAll(rows, fn)
}

func readAll(rows *sql.Rows, fn func(row []cell)) error {
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, into := make([]any, len(columns)), make([]any, len(columns))
	for n := range values {
		into[n] = &values[n]
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]cell, len(columns))
		for n, v := range values {
			row[n] = cellOf(columns[n], v)
		}
		fn(row)
	}
	return rows.Err()
}

const errNotPreparable = 1295

func cellOf(column string, v any) cell {
	switch v := v.(type) {
	case nil:
		return cell{column: column, null: true}
	case []byte:
		return cell{column: column, text: string(v)}
	case float32:
		return cell{column: column, text: strconv.FormatFloat(float64(v), 'x', -1, 32)}
	case float64:
		return cell{column: column, text: strconv.FormatFloat(v, 'x', -1, 64)}
	}
	return cell{column: column, text: fmt.Sprint(v)}
}

func number(err error) uint16 {
	if refusal, ok := errors.AsType[*mysql.MySQLError](err); ok {
		return refusal.Number
	}
	return 0
}

func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

func (d *describer) literal() string { return "'" + d.side.Database + "'" }

// table is a table, sequence or view.
type table struct {
	name, kind string
	read       []string // expressions for the values of all columns, generated and invisible ones too
	byChance   []bool   // whether the default of the column differs from call to call
	counted    string   // the column with AUTO_INCREMENT
	counter    uint64   // its next value, if that is not 1
}

// random matches defaults that differ from call to call, depend on what the session has done before, or on what the
// server has cached of a sequence.
var random = regexp.MustCompile(`(?i)\b(?:\w+_lock|nextval|lastval|row_count|found_rows|last_insert_id|uuid|uuid_short|sys_guid|random_bytes|connection_id|user|current_user|session_user|` +
	`system_user|database|schema|sysdate)\b`)

// readColumns reads which columns the tables have.
func (d *describer) readColumns(ctx context.Context) error {
	named := map[string]bool{} // tables with a period of which the columns have names; others are not listed
	err := d.each(ctx, `SELECT table_name, column_name, data_type, COALESCE(column_default, ''),
		COALESCE(generation_expression, ''), extra FROM information_schema.columns WHERE table_schema = `+d.literal()+
		` ORDER BY ordinal_position`, func(row []cell) {
		t := d.table(row[0].text)
		if t == nil {
			return
		}
		name, byDefault, generated := quote(row[1].text), row[3].text, row[4].text
		period := strings.HasPrefix(generated, "ROW ")
		named[t.name] = named[t.name] || period
		read := []string{name}
		switch row[2].text {
		case "enum", "set": // two members can have the same text
			read = append(read, name+" + 0")
		case "json": // MySQL's copies have the value that the text means
			read = []string{"CAST(CONVERT(" + name + " USING utf8mb4) AS JSON)"}
		}
		if strings.Contains(row[5].text, "auto_increment") {
			t.counted = name
		}
		for _, expression := range read {
			t.read = append(t.read, expression)
			t.byChance = append(t.byChance, period || random.MatchString(byDefault+generated))
		}
	})
	for n := range d.tables {
		if t := &d.tables[n]; t.kind == "SYSTEM VERSIONED" && !named[t.name] {
			t.read, t.byChance = append(t.read, "row_start", "row_end"), append(t.byChance, true, true)
		}
	}
	return err
}

func (d *describer) table(name string) *table {
	at := slices.IndexFunc(d.tables, func(t table) bool { return t.name == name })
	if at < 0 {
		return nil
	}
	return &d.tables[at]
}

// readTables reads all rows, former ones too.
func (d *describer) readTables(ctx context.Context) error {
	if err := d.readColumns(ctx); err != nil {
		return err
	}
	for _, t := range d.tables {
		if t.kind == "VIEW" {
			continue
		}
		from := quote(t.name)
		if t.kind == "SYSTEM VERSIONED" {
			from += " FOR SYSTEM_TIME ALL"
		}
		d.note(t.name, "rows", "") // that there is a table
		err := d.eachValue(ctx, "SELECT "+strings.Join(t.read, ", ")+" FROM "+from, func(row []cell) {
			d.noteAsIs(t.name, "rows", line(row, nil))
		})
		if err != nil {
			if err := d.noteError(t.name, "rows", err); err != nil {
				return err
			}
			continue
		}
		if err := d.noteCounter(ctx, t); err != nil {
			return err
		}
	}
	return nil
}

// noteCounter notes the next value for AUTO_INCREMENT. Some statements leave it lower than those of the rows, where a
// server does not set it. After the largest row that there can be, MariaDB prints none until the table is opened again.
func (d *describer) noteCounter(ctx context.Context, t table) error {
	if t.counted == "" {
		return nil
	}
	return d.each(ctx, "SELECT FLOOR(MAX("+t.counted+")) FROM "+quote(t.name), func(row []cell) {
		if last, err := strconv.ParseUint(row[0].text, 10, 64); err == nil {
			t.counter = max(t.counter, min(last, math.MaxUint64-1)+1)
		}
		d.note(t.name, "AUTO_INCREMENT", strconv.FormatUint(max(t.counter, 1), 10))
	})
}

func line(row []cell, hidden []bool) string {
	texts := make([]string, len(row))
	for n, c := range row {
		if texts[n] = c.String(); hidden != nil && hidden[n] && !c.null {
			texts[n] = "…"
		}
	}
	return strings.Join(texts, ", ")
}

// readDefaults inserts a row of defaults into an empty clone of each table, and reads it.
func (d *describer) readDefaults(ctx context.Context) error {
	scratch := quote(d.side.Database + "_scratch")
	if _, err := d.conn.ExecContext(ctx, "CREATE DATABASE "+scratch); err != nil {
		return err
	}
	for _, t := range d.tables {
		if t.kind == "VIEW" || t.kind == "SEQUENCE" {
			continue
		}
		if err := d.readDefaultsOf(ctx, t, scratch+".t"); err != nil {
			return err
		}
	}
	_, err := d.conn.ExecContext(ctx, "DROP DATABASE "+scratch)
	return err
}

func (d *describer) readDefaultsOf(ctx context.Context, t table, clone string) error {
	like := " TABLE " + clone + " LIKE " + quote(t.name)
	// Which is faster. Some tables cannot be temporary: with partitions or a history, for example.
	if _, err := d.conn.ExecContext(ctx, "CREATE TEMPORARY"+like); err != nil {
		if _, err := d.conn.ExecContext(ctx, "CREATE"+like); err != nil {
			return d.noteError(t.name, "clone", err)
		}
	}
	for _, statement := range []string{"SET timestamp = 1700000000.5, rand_seed1 = 1, rand_seed2 = 2",
		"INSERT INTO " + clone + " () VALUES ()"} {
		if _, err := d.conn.ExecContext(ctx, statement); err != nil {
			if err := d.noteError(t.name, "defaults", err); err != nil {
				return err
			}
		}
	}
	err := d.eachValue(ctx, "SELECT "+strings.Join(t.read, ", ")+" FROM "+clone, func(row []cell) {
		d.note(t.name, "defaults", line(row, t.byChance))
	})
	if err != nil {
		err = d.noteError(t.name, "defaults", err)
	}
	for _, statement := range []string{"SET timestamp = DEFAULT", "DROP TABLE " + clone} {
		if err == nil {
			_, err = d.conn.ExecContext(ctx, statement)
		}
	}
	return err
}

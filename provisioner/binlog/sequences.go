package binlog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// defaultOfSequence matches the default of a column that is the next value of a sequence.
var defaultOfSequence = regexp.MustCompile("^nextval\\((`(?:[^`]|``)+`)\\.(`(?:[^`]|``)+`)\\)$")

// AdvanceSequences moves each sequence that is the default of a column behind the values of that column. MariaDB logs
// what a statement takes of a sequence, but not if a trigger or a function takes it by such a default, nor if the table
// has such triggers itself. It is called when the replay is over. A sequence that cycles stays as it is.
func (r *Replay) AdvanceSequences(ctx context.Context) error {
	if r.MySQL || r.rows == nil {
		return nil
	}
	columns, err := r.countedColumns(ctx)
	if err != nil {
		return fmt.Errorf("find sequences: %w", err)
	}
	for _, c := range columns {
		if err := r.Alive(); err != nil {
			return err
		}
		if err := r.advance(ctx, c); err != nil {
			return fmt.Errorf("advance the sequence %s: %w", c.sequence, err)
		}
	}
	return nil
}

// countedColumn is a column whose default is the next value of a sequence, all with quotes and database.
type countedColumn struct{ table, column, sequence string }

func (r *Replay) countedColumns(ctx context.Context) (all []countedColumn, err error) {
	rows, err := r.rows.QueryContext(ctx, `SELECT table_name, column_name, column_default FROM information_schema.columns
		WHERE table_schema = ? AND column_default LIKE 'nextval(%' AND data_type LIKE '%int'`, r.Target)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	for rows.Next() {
		var table, column, value string
		if err := rows.Scan(&table, &column, &value); err != nil {
			return nil, err
		}
		found := defaultOfSequence.FindStringSubmatch(value)
		if found != nil && found[1] == quoteName(r.Target) {
			all = append(all, countedColumn{found[1] + "." + quoteName(table), quoteName(column), found[1] + "." + found[2]})
		}
	}
	return all, rows.Err()
}

func quoteName(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// advance moves a sequence on by as many times what it caches as it takes to be behind the values of a column, as the
// source did.
func (r *Replay) advance(ctx context.Context, c countedColumn) error {
	for _, direction := range []struct{ last, further, step, within, limit string }{
		{"MAX", ">=", "increment > 0", "<= maximum_value", "maximum_value"},
		{"MIN", "<=", "increment < 0", ">= minimum_value", "minimum_value"},
	} {
		var next, limit string
		var within bool
		err := r.rows.QueryRowContext(ctx, fmt.Sprintf(`SELECT next, next %[1]s, %[2]s FROM (
			SELECT s.*, CAST(next_not_cached_value + step * (FLOOR((used - next_not_cached_value) / step) + 1)
				AS DECIMAL(30)) next
			FROM (SELECT q.*, CAST(increment AS DECIMAL(30)) * GREATEST(cache_size, 1) step,
				(SELECT CAST(%[3]s(%[4]s) AS DECIMAL(30)) FROM %[5]s WHERE %[4]s BETWEEN q.minimum_value AND q.maximum_value) used
				FROM %[6]s q WHERE %[7]s AND cycle_option = 0) s WHERE used %[8]s next_not_cached_value) a`,
			direction.within, direction.limit, direction.last, c.column, c.table, c.sequence, direction.step,
			direction.further)).Scan(&next, &within, &limit)
		if errors.Is(err, sql.ErrNoRows) { // it is behind the values
			continue
		}
		if err != nil {
			return err
		}
		set := next + ", 0"
		if !within {
			set = limit + ", 1"
		}
		if _, err := r.rows.ExecContext(ctx, "DO SETVAL("+c.sequence+", "+set+")"); err != nil {
			return err
		}
	}
	return nil
}

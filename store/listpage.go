package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// pageKeys is how many rows one statement of a list reads. It takes some tens of milliseconds, however many match and
// however many there are.
const pageKeys = 5000

var lastOfPage = fmt.Sprintf(" OFFSET %d LIMIT 1", pageKeys-1)

// list describes a list that is read page by page, in the order of a key.
type list struct {
	table      string // with its alias
	key        string // columns, in the order of an index
	columns    string
	join       string
	descending bool
	most       int         // rows, 0 for all
	found      []condition // by an index
	matches    []condition // row by row
}

// condition is SQL with a ? for each argument.
type condition struct {
	sql  string
	args []any
}

// only adds a condition, if wanted, for which there is an index.
func (l *list) only(wanted bool, sql string, args ...any) {
	if wanted {
		l.found = append(l.found, condition{sql, args})
	}
}

// where adds a condition, if wanted, for which every row must be read.
func (l *list) where(wanted bool, sql string, args ...any) {
	if wanted {
		l.matches = append(l.matches, condition{sql, args})
	}
}

// keyIs compares the key with values. The first column is also compared by itself, so that PostgreSQL estimates that
// few rows match.
func (l *list) keyIs(operator string, values []any) condition {
	first, _, _ := strings.Cut(l.key, ",")
	return condition{first + " " + operator[:1] + "= ? AND (" + l.key + ") " + operator + " (?" +
		strings.Repeat(", ?", len(values)-1) + ")", append([]any{values[0]}, values...)}
}

// eachListed calls fn with the rows.
func eachListed[T any](ctx context.Context, s *database, l list, fn func(T) error) error {
	var after []any
	for read := 0; ; {
		page, end, err := listedPage[T](ctx, s, l, after, l.most-read)
		if err != nil {
			return err
		}
		for _, row := range page {
			if err := fn(row); err != nil {
				return err
			}
		}
		if read += len(page); end == nil || read == l.most {
			return nil
		}
		after = end
	}
}

// listedPage reads the matching rows of a page, at most limit, 0 for all. The page begins after a key, nil for the
// first page. It ends at end, the key of the row that is pageKeys further, nil for the last page. A first statement
// reads end, a second one the rows up to there, so that a row that exists all the time is neither left out nor read
// twice.
func listedPage[T any](ctx context.Context, s *database, l list, after []any,
	limit int) (page []T, end []any, err error) {
	beyond, upTo, order := ">", "<=", " ORDER BY "+l.key
	if l.descending {
		beyond, upTo, order = "<", ">=", order+" DESC"
	}
	rest := slices.Clip(l.found)
	if after != nil {
		rest = append(rest, l.keyIs(beyond, after))
	}
	sql, args := complete("SELECT "+l.key+" FROM "+l.table, rest)
	ends, err := allRows(ctx, s.pool, rowValues, sql+order+lastOfPage, args...)
	if err != nil {
		return nil, nil, explainOldSchema(err)
	}
	part := slices.Clip(rest)
	if len(ends) > 0 {
		end = ends[0]
		part = append(part, l.keyIs(upTo, end))
	}
	sql, args = complete("SELECT "+l.columns+" FROM "+l.table+" "+l.join, append(part, l.matches...))
	if limit > 0 {
		order += fmt.Sprintf(" LIMIT %d", limit)
	}
	page, err = allRows(ctx, s.pool, pgx.RowToStructByPos[T], sql+order, args...)
	return page, end, explainOldSchema(err)
}

func rowValues(row pgx.CollectableRow) ([]any, error) { return row.Values() }

// complete adds the conditions to a query and numbers the placeholders.
func complete(query string, conditions []condition) (sql string, args []any) {
	var b strings.Builder
	b.WriteString(query)
	word := " WHERE "
	for _, c := range conditions {
		b.WriteString(word)
		word = " AND "
		args = append(args, c.args...)
		number := len(args) - len(c.args)
		for _, r := range c.sql {
			if r == '?' {
				number++
				fmt.Fprintf(&b, "$%d", number)
			} else {
				b.WriteRune(r)
			}
		}
	}
	return b.String(), args
}

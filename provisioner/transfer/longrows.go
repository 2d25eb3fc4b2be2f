package transfer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/provisioner/memory"
)

// How often a long row is in memory: as the driver reads it, and in statements, where it is up to twice as long. A copy
// has the statement, the string for the driver, and the driver's packet; a dump has the statement, and an object.
const (
	timesInCopy = 1 + 3*2
	timesInDump = 1 + 2*2
)

// reserve waits for the memory for the longest row of a chunk, which longest returns; 0 if no row is longer than a
// statement of others.
func (o Options) reserve(ctx context.Context, from *sql.Conn, k chunk, times int64) (longest int64, release func(),
	err error) {
	query := k.table.selectLongest(k)
	if query == "" {
		return 0, func() {}, nil
	}
	if err := from.QueryRowContext(ctx, query).Scan(&longest); err != nil {
		return 0, nil, sourceFailure(err)
	}
	if longest <= statementBytes {
		return 0, func() {}, nil
	}
	release, err = o.Reserve(ctx, times*longest)
	return longest, release, RefuseLong(err, longest, k.table.Name)
}

// RefuseLong explains memory.ErrTooLarge, and returns any other error as it is.
func RefuseLong(err error, bytes int64, tables ...string) error {
	if !errors.Is(err, memory.ErrTooLarge) {
		return err
	}
	return refusedBySettings(err, "Table %s has a row of %d MiB, which is more than the broker has the memory to copy. "+
		"Ask your operator to give the broker more memory.", strings.Join(tables, ", or table "), bytes>>20)
}

// shortBytes is how long values of types can be that are in selectLongest only if there are many such columns. Values
// of other types that are not in long are at most 64 KiB for a whole row.
var shortBytes = map[string]int{"tinyblob": 1 << 8, "tinytext": 1 << 8, "blob": 1 << 16, "text": 1 << 16,
	"vector": 1 << 16}

// selectLongest is the query for the length of the longest row of a chunk; "" if the table's definition has no room for
// one that is longer than a statement of others.
func (t table) selectLongest(k chunk) string {
	lengths, most := []string{"65536"}, 1<<16
	for _, c := range t.Columns {
		if !slices.Contains(long, c.Kind) {
			continue
		}
		lengths = append(lengths, "COALESCE(LENGTH("+quoteName(c.Name)+"),0)")
		if short := shortBytes[c.Kind]; short > 0 {
			most += short
		} else {
			most += statementBytes
		}
	}
	if most <= statementBytes {
		return ""
	}
	return fmt.Sprintf("SELECT COALESCE(MAX(%s),0) FROM %s%s", strings.Join(lengths, "+"), t.from(), t.where(k))
}

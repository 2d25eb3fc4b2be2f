package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
)

// chunkBytes is Options.ChunkBytes by default.
const chunkBytes = 4 << 20

// gentleParts is how many chunks a gentle copy makes of one of another copy.
const gentleParts = 16

// chunk is the rows of a table whose key is greater than one literal and not greater than another; "" for no limit.
type chunk struct {
	table    *table
	from, to string
	first    bool   // of its table
	known    string // the checksum of the target's rows, "" if it is not known
	replaces bool   // rows that have the same unique keys as those that are written
}

// where is the condition for a chunk.
func (t table) where(k chunk) string {
	key := quoteName(t.Key)
	switch {
	case k.from == "" && k.to == "":
		return ""
	case k.from == "":
		return fmt.Sprintf(" WHERE %s <= %s", key, k.to)
	case k.to == "":
		return fmt.Sprintf(" WHERE %s > %s", key, k.from)
	}
	return fmt.Sprintf(" WHERE %s > %s AND %s <= %s", key, k.from, key, k.to)
}

// eachChunk divides a table, or what follows a key in it, into chunks of about so many bytes and calls fn with each. A
// table without a usable key is one chunk.
func eachChunk(ctx context.Context, conn *sql.Conn, k chunk, bytes uint64, fn func(chunk) error) error {
	t := k.table
	if t.Key != "" && t.Bytes > bytes {
		size := max(t.rows*bytes/t.Bytes, 100)
		for {
			to, err := nextKey(ctx, conn, t, k.from, size)
			if err != nil {
				return err
			}
			if to == "" {
				break
			}
			k.to, k.known = to, ""
			if err := fn(k); err != nil {
				return err
			}
			k = chunk{table: t, from: to}
		}
	}
	return fn(k)
}

// nextKey returns the key that is so many rows after another, as a literal; "" if there are not so many rows.
func nextKey(ctx context.Context, conn *sql.Conn, t *table, from string, rows uint64) (literal string, err error) {
	key := t.Columns[slices.IndexFunc(t.Columns, func(c column) bool { return c.Name == t.Key })]
	query := fmt.Sprintf("SELECT %s FROM %s FORCE INDEX (%s)%s ORDER BY %[1]s LIMIT %[5]d, 1", quoteName(t.Key), t,
		quoteName(t.keyIndex), t.where(chunk{from: from}), rows-1)
	err = eachRow(ctx, conn, query, func(values []value) error {
		literal = key.keyLiteral(values[0])
		return nil
	})
	return literal, sourceFailure(err)
}

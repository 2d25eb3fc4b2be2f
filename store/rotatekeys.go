package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Keys encrypts secrets in PostgreSQL again when their key is replaced, and binds the database to its keyset.
type Keys struct{ *database }

// sealedColumn holds ciphertexts, or NULL.
type sealedColumn struct {
	table, column string
	key           string                    // an SQL array of what place takes
	place         func(key []string) string // what the row's ciphertexts are bound to
}

// sealedColumns are in the order in which missing keys are reported, the least informative column last: see Keys.Check.
var sealedColumns = []sealedColumn{
	{"instance", "admin_password", "ARRAY[id]", instanceKeyPlace},
	{"instance", "next_admin_password", "ARRAY[id]", instanceKeyPlace},
	{"instance", "other_admin_password", "ARRAY[id]", instanceKeyPlace},
	{"retained", "admin_password", "ARRAY[instance_id]", instanceKeyPlace},
	{"retained", "next_admin_password", "ARRAY[instance_id]", instanceKeyPlace},
	{"binding", "password", "ARRAY[instance_id, id]", func(key []string) string { return bindingPlace(key[0], key[1]) }},
	{authorityTable, "key", "ARRAY[id::text]", func(key []string) string { return authorityPlace(key[0]) }},
}

func instanceKeyPlace(key []string) string { return instancePlace(key[0]) }

// MissingKeyError says that stored passwords cannot be read with the keyset.
type MissingKeyError struct {
	Table, Column string
	KeyID         uint32
	Count         int64
}

func (e *MissingKeyError) Error() string {
	return fmt.Sprintf("the keyset lacks the key %d, with which %d stored passwords (%s.%s) are encrypted: use a keyset "+
		"that has it; a key may be dropped once `mysql-broker rotate-keys` has run", e.KeyID, e.Count, e.Table, e.Column)
}

// checkPasswords returns a *MissingKeyError if a stored password is encrypted with a key that is not in the keyset.
func (s Keys) checkPasswords(ctx context.Context) error {
	for _, c := range sealedColumns {
		marks, err := allRows(ctx, s.pool, pgx.RowTo[[]byte], c.marks())
		if err != nil {
			return fmt.Errorf("look for the keys of stored passwords: %w", explainOldSchema(err))
		}
		for _, mark := range marks {
			id, ok := keyOf(mark)
			if ok && s.keys.ids[id] {
				continue
			}
			count, err := oneRow(ctx, s.pool, pgx.RowTo[int64],
				fmt.Sprintf("SELECT count(*) FROM %s WHERE %s = $1", c.table, c.mark()), mark)
			if err != nil {
				return fmt.Errorf("count the stored passwords of a key: %w", err)
			}
			return &MissingKeyError{c.table, c.column, id, count}
		}
	}
	return nil
}

// OldPasswords counts the stored passwords that are not encrypted with the keyset's primary key.
func (s Keys) OldPasswords(ctx context.Context) (all int64, err error) {
	for _, c := range sealedColumns {
		n, err := oneRow(ctx, s.pool, pgx.RowTo[int64],
			fmt.Sprintf("SELECT count(*) FROM %s WHERE %s <> $1", c.table, c.mark()), keyMark(s.keys.primary))
		if err != nil {
			return all, fmt.Errorf("count the stored passwords of old keys: %w", err)
		}
		all += n
	}
	return all, nil
}

// mark is the SQL for the prefix of a ciphertext, as in the index: see keyMark.
func (c sealedColumn) mark() string { return fmt.Sprintf("substr(%s, 1, %d)", c.column, keyIDBytes) }

// marks selects the distinct prefixes. It skips from one to the next in the index, however many rows share one.
// https://wiki.postgresql.org/wiki/Loose_indexscan
func (c sealedColumn) marks() string {
	first := fmt.Sprintf("SELECT %s AS mark FROM %s WHERE %s IS NOT NULL", c.mark(), c.table, c.column)
	return fmt.Sprintf(`WITH RECURSIVE used AS (
		(%s ORDER BY 1 LIMIT 1)
		UNION ALL SELECT next.mark FROM used, LATERAL (%[1]s AND %[2]s > used.mark ORDER BY 1 LIMIT 1) AS next)
		SELECT mark FROM used`, first, c.mark())
}

// rotateBatch is how many rows are read at a time.
const rotateBatch = 500

// Rotate encrypts everything again that was encrypted with another key than the keyset's primary key, and returns
// how many passwords there were. Brokers may keep running: if one of them changes a row in between, the row is read
// again. If Keys.Rotate fails halfway, the next call continues from there. If the keyset lacks a key that is in use, it
// changes nothing.
func (s Keys) Rotate(ctx context.Context) (rotated int, err error) {
	if err := s.Check(ctx); err != nil {
		return 0, err
	}
	for _, c := range sealedColumns {
		n, err := s.rotateColumn(ctx, c)
		rotated += n
		if err != nil {
			return rotated, err
		}
	}
	return rotated, s.rotateOwn(ctx)
}

// sealedRow is where a ciphertext is. A row's version changes with every update of it.
type sealedRow struct {
	Version string
	Key     []string
	Sealed  []byte
}

func (s Keys) rotateColumn(ctx context.Context, c sealedColumn) (rotated int, err error) {
	// The order is that of the index, so that PostgreSQL uses it whatever it estimates.
	const side = "(SELECT ctid::text, %s, %s FROM %s WHERE %[2]s IS NOT NULL AND %[4]s %[5]s $1 " +
		"ORDER BY %[4]s LIMIT %[6]d)"
	read := fmt.Sprintf(side, c.key, c.column, c.table, c.mark(), "<", rotateBatch) + " UNION ALL " +
		fmt.Sprintf(side, c.key, c.column, c.table, c.mark(), ">", rotateBatch)
	// Each transaction changes one row: transactions that lock several could deadlock.
	write := fmt.Sprintf("UPDATE %s SET %s = $1 WHERE ctid = $2::text::tid AND %[2]s = $3", c.table, c.column)
	for {
		rows, err := allRows(ctx, s.pool, pgx.RowToStructByPos[sealedRow], read, keyMark(s.keys.primary))
		if err != nil || len(rows) == 0 {
			return rotated, err
		}
		for _, row := range rows {
			place := c.place(row.Key)
			secret, err := s.keys.open(row.Sealed, place)
			if err != nil {
				return rotated, err
			}
			sealed, err := s.keys.seal(secret, place)
			if err != nil {
				return rotated, err
			}
			tag, err := s.db.Exec(ctx, write, sealed, row.Version, row.Sealed)
			if err != nil {
				return rotated, fmt.Errorf("encrypt a password of %s again: %w", place, err)
			}
			rotated += int(tag.RowsAffected())
		}
	}
}

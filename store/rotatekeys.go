package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// sealedColumn holds ciphertexts, or NULL.
type sealedColumn struct {
	table, column string
	key           string                    // an SQL array of what place takes
	place         func(key []string) string // what the row's ciphertexts are bound to
}

var sealedColumns = []sealedColumn{
	{"instance", "admin_password", "ARRAY[id]", instanceKeyPlace},
	{"instance", "next_admin_password", "ARRAY[id]", instanceKeyPlace},
	{"binding", "password", "ARRAY[instance_id, id]", func(key []string) string { return bindingPlace(key[0], key[1]) }},
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

// CheckKeys returns a *MissingKeyError if something stored is encrypted with a key that is not in the keyset. Its cost
// grows with the number of rows.
func (s *Store) CheckKeys(ctx context.Context) error {
	for _, c := range sealedColumns {
		used, err := allRows(ctx, s.pool, pgx.RowToStructByPos[struct {
			KeyID int64
			Count int64
		}], fmt.Sprintf(`SELECT ('x' || encode(substr(%[1]s, 2, %[3]d), 'hex'))::bit(32)::bigint, count(*)
			FROM %[2]s WHERE %[1]s IS NOT NULL GROUP BY 1`, c.column, c.table, keyIDBytes-1))
		if err != nil {
			return fmt.Errorf("look for the keys of stored passwords: %w", err)
		}
		for _, u := range used {
			if !s.keys.ids[uint32(u.KeyID)] {
				return &MissingKeyError{c.table, c.column, uint32(u.KeyID), u.Count}
			}
		}
	}
	return nil
}

// rotateBatch is how many rows are read at a time.
const rotateBatch = 500

// RotateKeys encrypts anew, with the keyset's primary key, whatever was encrypted with another one, and says how many
// passwords that were. Brokers may go on working: a row that one of them changes meanwhile is read again. If it fails
// half-way, what is done is done, and the next call goes on from there. If the keyset lacks a key that is in use,
// nothing is changed.
func (s *Store) RotateKeys(ctx context.Context) (rotated int, err error) {
	if err := s.CheckKeys(ctx); err != nil {
		return 0, err
	}
	for _, c := range sealedColumns {
		n, err := s.rotateColumn(ctx, c)
		rotated += n
		if err != nil {
			return rotated, err
		}
	}
	return rotated, nil
}

// sealedRow is where a ciphertext is. A row's version changes with every update of it.
type sealedRow struct {
	Version string
	Key     []string
	Sealed  []byte
}

func (s *Store) rotateColumn(ctx context.Context, c sealedColumn) (rotated int, err error) {
	read := fmt.Sprintf("SELECT ctid::text, %s, %s FROM %s WHERE substr(%[2]s, 1, %[4]d) <> $1 LIMIT %[5]d",
		c.key, c.column, c.table, keyIDBytes, rotateBatch)
	// One row in a transaction: one that locked several could be in another's way crosswise.
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
				return rotated, fmt.Errorf("store a password of %s anew: %w", place, err)
			}
			rotated += int(tag.RowsAffected())
		}
	}
}

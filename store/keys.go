package store

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// When the first broker starts, the database is bound to its keyset. Otherwise a broker with another keyset would be
// accepted while nothing is stored, and later neither broker could read what the other writes. The record is a
// ciphertext, so that only the key itself passes the check, not just its id.
const (
	keysetName  = "keyset" // in the table secret
	keysetPlace = "the keyset of this database"
)

// ForeignKeysetError says that the database is bound to another keyset.
type ForeignKeysetError struct {
	KeyID uint32 // of the key in that keyset
}

func (e *ForeignKeysetError) Error() string {
	return fmt.Sprintf("this is not the keyset that the first broker on this PostgreSQL database was started with, which "+
		"has the key %d: give all brokers that one; a key may be dropped once `mysql-broker rotate-keys` has run. If it is "+
		"lost, see \"The keyset is lost\" in docs/runbook.md", e.KeyID)
}

// AdoptKeyset binds the database to the keyset. If it is bound already, AdoptKeyset is Keys.Check. If several brokers
// start at the same time, one of them binds it.
func (s Keys) AdoptKeyset(ctx context.Context) error {
	if err := s.Check(ctx); err != nil {
		return err
	}
	sealed, err := s.sealOwn()
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
		keysetName, sealed); err != nil {
		return fmt.Errorf("record the keyset: %w", err)
	}
	return s.checkOwn(ctx)
}

// Check returns a *ForeignKeysetError if the database is bound to another keyset, or a *MissingKeyError if
// something stored is encrypted with a key that is not in the keyset. If both apply, it returns the *MissingKeyError,
// which says more, unless only the key of a CA cannot be read: every database has a CA from the first start of a broker
// on.
func (s Keys) Check(ctx context.Context) error {
	err := s.checkPasswords(ctx)
	if missing, ok := errors.AsType[*MissingKeyError](err); err != nil && !(ok && missing.Table == authorityTable) {
		return err
	}
	if foreign := s.checkOwn(ctx); foreign != nil {
		return foreign
	}
	return err
}

func (s Keys) sealOwn() (string, error) {
	sealed, err := s.keys.seal("", keysetPlace)
	return base64.StdEncoding.EncodeToString(sealed), err
}

// own returns the ciphertext that binds the database to its keyset, or ErrNotFound.
func (s Keys) own(ctx context.Context) (string, error) {
	text, err := oneRow(ctx, s.pool, pgx.RowTo[string], "SELECT value FROM secret WHERE name = $1", keysetName)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("read which keyset the database belongs to: %w", err)
	}
	return text, err
}

// checkOwn returns an error if the database is bound to another keyset.
func (s Keys) checkOwn(ctx context.Context) error {
	text, err := s.own(ctx)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	sealed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sealed) < keyIDBytes {
		return errors.New("what is recorded of the database's keyset (secret, name 'keyset') is damaged")
	}
	if _, err := s.keys.open(sealed, keysetPlace); err != nil {
		id, _ := keyOf(sealed[:keyIDBytes])
		return &ForeignKeysetError{id}
	}
	return nil
}

// rotateOwn encrypts the record of the database's keyset again, with the primary key.
func (s Keys) rotateOwn(ctx context.Context) error {
	text, err := s.own(ctx)
	if errors.Is(err, ErrNotFound) { // the next broker to start records it
		return nil
	}
	if err != nil {
		return err
	}
	sealed, err := s.sealOwn()
	if err != nil {
		return err
	}
	if err := s.exec(ctx, "UPDATE secret SET value = $1 WHERE name = $2 AND value = $3", sealed, keysetName,
		text); err != nil {
		return fmt.Errorf("record the keyset: %w", err)
	}
	return nil
}

// SessionLockKey returns the key that all brokers on this database use to name their locks on MySQL servers.
func (s Keys) SessionLockKey(ctx context.Context) ([]byte, error) {
	key, err := oneRow(ctx, s.pool, pgx.RowTo[[]byte], "SELECT value::bytea FROM secret WHERE name = 'session lock'")
	if err != nil {
		return nil, fmt.Errorf("read the key of the session locks: %w", err)
	}
	return key, nil
}

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
			return fmt.Errorf("find the keys of stored passwords: %w", err)
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
			changed, err := s.run(ctx, s.pool, write, sealed, row.Version, row.Sealed)
			if err != nil {
				return rotated, fmt.Errorf("encrypt a password of %s again: %w", place, err)
			}
			rotated += int(changed)
		}
	}
}

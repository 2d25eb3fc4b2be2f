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
	if err := s.Check(ctx); err != nil { // also checks the passwords of a database that older releases have used
		return err
	}
	sealed, err := s.sealOwn()
	if err != nil {
		return err
	}
	if _, err := s.db.Exec(ctx, "INSERT INTO secret (name, value) VALUES ($1, $2) ON CONFLICT DO NOTHING",
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
		return "", fmt.Errorf("read which keyset the database belongs to: %w", explainOldSchema(err))
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
	if _, err := s.db.Exec(ctx, "UPDATE secret SET value = $1 WHERE name = $2 AND value = $3", sealed, keysetName,
		text); err != nil {
		return fmt.Errorf("record the keyset: %w", err)
	}
	return nil
}

// SessionLockKey returns the key that all brokers on this database use to name their locks on MySQL servers.
func (s Keys) SessionLockKey(ctx context.Context) ([]byte, error) {
	key, err := oneRow(ctx, s.pool, pgx.RowTo[[]byte], "SELECT value::bytea FROM secret WHERE name = 'session lock'")
	if err != nil {
		return nil, fmt.Errorf("read the key of the session locks: %w", explainOldSchema(err))
	}
	return key, nil
}

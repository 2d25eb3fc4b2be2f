package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// defaultCharset is that of databases for which none is asked; MariaDB's own default is latin1.
const defaultCharset = "utf8mb4"

// dropAttempts bounds how often DropDatabase kills sessions anew; each attempt waits for lockWaitTimeout.
const dropAttempts = 10

// DatabaseExists reports whether the server has that database.
func (s *Server) DatabaseExists(ctx context.Context, name string) (found bool, err error) {
	err = s.reads.QueryRowContext(ctx,
		"SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)", name).Scan(&found)
	return found, s.explain("look for database "+name, err)
}

// CreateDatabase makes a database; one that exists is left as it is. An empty charset means that of the collation, or
// utf8mb4; an empty collation means the server's default for the charset. Those that the server does not take are a
// *CharsetError.
func (s *Session) CreateDatabase(ctx context.Context, name, charset, collation string) error {
	implied := charset == ""
	if implied {
		charset = defaultCharset
	}
	err := s.exec(ctx, createDatabase(name, charset, collation))
	if implied && hasNumber(err, errCollationMismatch) {
		err = s.exec(ctx, createDatabase(name, "", collation))
	}
	if wrong := charsetError(err, charset, collation); wrong != nil {
		return wrong
	}
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

func createDatabase(name, charset, collation string) (statement string) {
	statement = "CREATE DATABASE IF NOT EXISTS " + quoteIdentifier(name)
	if charset != "" {
		statement += " CHARACTER SET " + quoteIdentifier(charset)
	}
	if collation != "" {
		statement += " COLLATE " + quoteIdentifier(collation)
	}
	return statement
}

// DropDatabase removes a database with all that is in it; a missing one is fine. Grants on it survive: drop the
// accounts afterwards. DROP DATABASE waits behind every open transaction that touched one of its tables: then sessions
// that use it, or may, are killed, again as often as new ones get in the way. A prepared XA transaction, which no kill
// ends, makes it fail, with an error that says what the operator may have to roll back.
func (s *Session) DropDatabase(ctx context.Context, name string) error {
	var err error
	for range dropAttempts {
		err = s.exec(ctx, "DROP DATABASE IF EXISTS "+quoteIdentifier(name))
		if hasNumber(err, errDatabaseReadOnly) {
			err = s.exec(ctx, "ALTER DATABASE "+quoteIdentifier(name)+" READ ONLY = 0") // a tenant may have set it
		} else if hasNumber(err, errLockWaitTimeout) {
			err = errors.Join(s.killUsers(ctx, name), err)
		} else {
			break
		}
	}
	if hasNumber(err, errLockWaitTimeout) {
		err = s.explainLockWait(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

// ErrHoldsData is returned by DropEmptyDatabase.
var ErrHoldsData = errors.New("the database is not empty")

// holdsData takes a database three times. Triggers hang on tables. Both flavours answer it without opening a table.
const holdsData = `SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.routines WHERE routine_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema = ?)`

// HoldsData tells whether there is a table, view, sequence, routine or event in a database, which may be missing.
func (s *Server) HoldsData(ctx context.Context, name string) (holds bool, err error) {
	err = s.reads.QueryRowContext(ctx, holdsData, name, name, name).Scan(&holds)
	return holds, s.explain("look into database "+name, err)
}

// DropEmptyDatabase removes a database in which there is no table, view, sequence, routine or event; a missing one is
// fine. One that holds any is left alone: ErrHoldsData.
func (s *Session) DropEmptyDatabase(ctx context.Context, name string) error {
	holds, err := s.exists(ctx, holdsData, name, name, name)
	if err != nil {
		return fmt.Errorf("look into database %s: %w", name, err)
	}
	if holds {
		return fmt.Errorf("database %s: %w", name, ErrHoldsData)
	}
	return s.DropDatabase(ctx, name)
}

// killUsers kills the sessions that use a database, and those of accounts that may.
func (s *Session) killUsers(ctx context.Context, database string) error {
	accounts, err := names(ctx, s.conn, "SELECT user FROM mysql.db WHERE db = ?", escapePattern(database))
	if err != nil {
		s.failed = true
		return fmt.Errorf("list the accounts: %w", err)
	}
	using, err := s.connections(ctx, func(c connection) bool {
		return c.db == database || slices.Contains(accounts, c.user)
	})
	if err != nil {
		return err
	}
	return s.killEach(ctx, using)
}

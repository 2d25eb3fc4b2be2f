package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// defaultCharset is the charset of databases without a parameter; MariaDB's own default is latin1.
const defaultCharset = "utf8mb4"

// dropAttempts bounds how often DropDatabase kills sessions; each attempt waits for lockWaitTimeout.
const dropAttempts = 10

const databaseExists = "SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)"

// DatabaseExists reports whether the server has that database.
func (s *Server) DatabaseExists(ctx context.Context, name string) (found bool, err error) {
	err = s.reads.QueryRowContext(ctx, databaseExists, name).Scan(&found)
	return found, s.explain("look for database "+name, err)
}

// DatabaseExists reports what Server.DatabaseExists does.
func (s *Session) DatabaseExists(ctx context.Context, name string) (found bool, err error) {
	if found, err = s.exists(ctx, databaseExists, name); err != nil {
		return false, fmt.Errorf("look for database %s: %w", name, err)
	}
	return found, nil
}

// CreateDatabase creates a database, if it does not exist. An empty charset means that of the collation, or utf8mb4; an
// empty collation means the server's default for the charset. If the server does not accept them, it returns a
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

// DropDatabase drops a database, if it exists. Grants on it survive: drop the accounts afterwards. DROP DATABASE waits
// for every open transaction that has used one of the tables. If it waits too long, DropDatabase kills the sessions
// that use the database or may use it, and tries again. It fails if a prepared XA transaction, which no kill ends,
// holds a table. The error then says what the operator may have to roll back.
func (s *Session) DropDatabase(ctx context.Context, name string) error {
	var err error
	for range dropAttempts {
		err = s.exec(ctx, "DROP DATABASE IF EXISTS "+quoteIdentifier(name))
		if hasNumber(err, errDatabaseReadOnly) {
			err = s.SetReadOnly(ctx, name, false)
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

// ReadOnly reports whether a tenant has made a database read-only, which is possible on MySQL 8.0.22 and later. Then
// nobody can change it, the broker included.
// https://dev.mysql.com/doc/refman/8.4/en/alter-database.html#alter-database-read-only
func (s *Server) ReadOnly(ctx context.Context, name string) (is bool, err error) {
	flavour, err := s.Flavour(ctx)
	if err != nil || flavour.Name == MariaDB {
		return false, err
	}
	err = s.reads.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.schemata_extensions
		WHERE schema_name = ? AND options LIKE '%READ ONLY=1%')`, name).Scan(&is)
	if hasNumber(err, errUnknownTable) { // an older version
		return false, nil
	}
	return is, s.explain("look whether database "+name+" is read-only", err)
}

// SetReadOnly makes a database on MySQL read-only, or writable.
func (s *Session) SetReadOnly(ctx context.Context, name string, is bool) error {
	value := "0"
	if is {
		value = "1"
	}
	if err := s.exec(ctx, "ALTER DATABASE "+quoteIdentifier(name)+" READ ONLY = "+value); err != nil {
		return fmt.Errorf("set READ ONLY of database %s to %s: %w", name, value, err)
	}
	return nil
}

// ErrHoldsData is returned by DropEmptyDatabase.
var ErrHoldsData = errors.New("the database is not empty")

// holdsData takes a database three times. Triggers belong to tables. Neither flavour opens a table for it.
const holdsData = `SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.routines WHERE routine_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema = ?)`

// HoldsData reports whether a database, which may be missing, has a table, view, sequence, routine or event.
func (s *Server) HoldsData(ctx context.Context, name string) (holds bool, err error) {
	err = s.reads.QueryRowContext(ctx, holdsData, name, name, name).Scan(&holds)
	return holds, s.explain("look into database "+name, err)
}

// HoldsData reports what Server.HoldsData does, while the session has its lock.
func (s *Session) HoldsData(ctx context.Context, name string) (holds bool, err error) {
	holds, err = s.exists(ctx, holdsData, name, name, name)
	if err != nil {
		return holds, fmt.Errorf("look into database %s: %w", name, err)
	}
	return holds, nil
}

// DropEmptyDatabase drops a database, if it exists, unless it has a table, view, sequence, routine or event: then it
// returns ErrHoldsData.
func (s *Session) DropEmptyDatabase(ctx context.Context, name string) error {
	holds, err := s.HoldsData(ctx, name)
	if err != nil {
		return err
	}
	if holds {
		return fmt.Errorf("database %s: %w", name, ErrHoldsData)
	}
	return s.DropDatabase(ctx, name)
}

// killUsers kills the sessions that use a database, and those of accounts with privileges on it.
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

package mysqladmin

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// defaultCharset is the charset of databases without a parameter; MariaDB's own default is latin1.
const defaultCharset = "utf8mb4"

// dropAttempts bounds how often execAlone runs a statement, each time for up to lockWaitTimeout.
const dropAttempts = 10

const databaseExists = "SELECT EXISTS (SELECT 1 FROM information_schema.schemata WHERE schema_name = ?)"

// DatabaseExists reports whether the server has that database.
func (s *Server) DatabaseExists(ctx context.Context, name string) (found bool, err error) {
	err = s.reads.QueryRowContext(ctx, databaseExists, name).Scan(&found)
	return found, s.explain("find database "+name, err)
}

// Exists reports what Server.DatabaseExists does.
func (on Databases) Exists(ctx context.Context, name string) (found bool, err error) {
	found, err = on.s.exists(ctx, databaseExists, name)
	return found, explain("find database "+name, err)
}

// Create creates a database, if it does not exist. An empty charset means that of the collation, or utf8mb4; an
// empty collation means the server's default for the charset. If the server does not accept them, it returns a
// *CharsetError.
func (on Databases) Create(ctx context.Context, name, charset, collation string) error {
	implied := charset == ""
	if implied {
		charset = defaultCharset
	}
	err := on.s.exec(ctx, createDatabase(name, charset, collation))
	if implied && hasNumber(err, errCollationMismatch) {
		err = on.s.exec(ctx, createDatabase(name, "", collation))
	}
	if wrong := charsetError(err, charset, collation); wrong != nil {
		return wrong
	}
	return explain("create database "+name, err)
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

// Drop drops a database, if it exists, and what MarkMixture has recorded of it. Grants on it survive: drop the accounts
// afterwards. DROP DATABASE waits for every open transaction that has used one of the tables. If it waits too long,
// Drop kills the sessions that use the database or may use it, and tries again. It fails if a prepared XA transaction,
// which no kill ends, holds a table. The error then says what the operator may have to roll back.
func (on Databases) Drop(ctx context.Context, name string) error {
	if err := on.execAlone(ctx, name, "DROP DATABASE IF EXISTS "+quoteIdentifier(name)); err != nil {
		return explain("drop database "+name, err)
	}
	return on.EndMixture(ctx, name)
}

// execAlone runs a statement that waits for every open transaction that has used some tables of a database. If it waits
// too long, execAlone kills the sessions that use the database or may use it, and tries again. If the database is
// read-only, execAlone makes it writable first.
func (on Databases) execAlone(ctx context.Context, database, statement string) (err error) {
	for range dropAttempts {
		err = on.s.exec(ctx, statement)
		switch {
		case hasNumber(err, errLockWaitTimeout):
			err = errors.Join(err, on.killUsers(ctx, database))
		case hasNumber(err, errDatabaseReadOnly):
			err = errors.Join(err, on.SetReadOnly(ctx, database, false))
		default:
			return err
		}
	}
	return on.explainLockWait(ctx, err)
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
	return is, s.explain("read whether database "+name+" is read-only", err)
}

// SetReadOnly makes a database on MySQL read-only, or writable.
func (on Databases) SetReadOnly(ctx context.Context, name string, is bool) error {
	value := "0"
	if is {
		value = "1"
	}
	err := on.s.exec(ctx, "ALTER DATABASE "+quoteIdentifier(name)+" READ ONLY = "+value)
	return explain("set READ ONLY of database "+name+" to "+value, err)
}

// ErrHoldsData is returned by DropEmpty.
var ErrHoldsData = errors.New("the database is not empty")

// holdsData takes a database three times. Triggers belong to tables. Neither flavour opens a table for it.
const holdsData = `SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.routines WHERE routine_schema = ?) OR
	EXISTS (SELECT 1 FROM information_schema.events WHERE event_schema = ?)`

// HoldsData reports whether a database, which may be missing, has a table, view, sequence, routine or event.
func (s *Server) HoldsData(ctx context.Context, name string) (holds bool, err error) {
	err = s.reads.QueryRowContext(ctx, holdsData, name, name, name).Scan(&holds)
	return holds, s.explain("read database "+name, err)
}

// HoldsData reports what Server.HoldsData does, while the session has its lock.
func (on Databases) HoldsData(ctx context.Context, name string) (holds bool, err error) {
	holds, err = on.s.exists(ctx, holdsData, name, name, name)
	return holds, explain("read database "+name, err)
}

// DropEmpty drops a database, if it exists, unless it has a table, view, sequence, routine or event: then it
// returns ErrHoldsData.
func (on Databases) DropEmpty(ctx context.Context, name string) error {
	if err := on.mustBeEmpty(ctx, name); err != nil {
		return err
	}
	return on.Drop(ctx, name)
}

func (on Databases) mustBeEmpty(ctx context.Context, name string) error {
	holds, err := on.HoldsData(ctx, name)
	if err == nil && holds {
		err = fmt.Errorf("database %s: %w", name, ErrHoldsData)
	}
	return err
}

// killUsers kills the sessions that use a database, and those of accounts with privileges on it.
func (on Databases) killUsers(ctx context.Context, database string) error {
	accounts, err := names(ctx, on.s.conn, "SELECT user FROM mysql.db WHERE db = ?", escapePattern(database))
	if err != nil {
		return on.s.fail("list the accounts", err)
	}
	using, err := on.s.connections(ctx, func(c connection) bool {
		return c.db == database || slices.Contains(accounts, c.user)
	})
	if err != nil {
		return err
	}
	return on.s.killEach(ctx, using)
}

// CharsetError says which of the parameters charset and collation a server does not accept, and why.
type CharsetError struct {
	Parameter string // "charset" or "collation"
	Reason    string // the rest of the sentence
}

// Sentence is for users.
func (e *CharsetError) Sentence() string {
	return fmt.Sprintf("Parameter %q %s.", e.Parameter, e.Reason)
}

func (e *CharsetError) Error() string { return e.Parameter + " " + e.Reason }

// ValidateCharset uses the parameters in a query, to find out whether Databases.Create will accept them. If not, it
// returns a *CharsetError.
func (on Setup) ValidateCharset(ctx context.Context, charset, collation string) error {
	implied := charset == ""
	if implied {
		charset = defaultCharset
	}
	query := "SELECT CONVERT('' USING " + quoteIdentifier(charset) + ")"
	if collation != "" {
		query += " COLLATE " + quoteIdentifier(collation)
	}
	var empty string
	err := on.s.reads.QueryRowContext(ctx, query).Scan(&empty)
	if implied && hasNumber(err, errCollationMismatch) {
		return nil // the collation implies a charset other than the default
	}
	if wrong := charsetError(err, charset, collation); wrong != nil {
		return wrong
	}
	return on.s.explain("check charset and collation", err)
}

// charsetError translates a server's error about a charset or collation that it does not accept. It returns nil for
// other errors.
func charsetError(err error, charset, collation string) error {
	switch {
	case hasNumber(err, errUnknownCharset):
		return &CharsetError{"charset", fmt.Sprintf("is %q, which the server does not know", charset)}
	case hasNumber(err, errUnknownCollation):
		return &CharsetError{"collation", fmt.Sprintf("is %q, which the server does not know", collation)}
	case hasNumber(err, errCollationMismatch):
		return &CharsetError{"collation", fmt.Sprintf("is %q, which does not belong to the character set %q",
			collation, charset)}
	}
	return nil
}

// UnfinishedTable is the name of the table by which MarkUnfinished marks a database. It belongs to that database alone,
// so that no copy of another database has it.
func UnfinishedTable(database string) string { return "unfinished " + database }

const hasTable = "SELECT EXISTS (SELECT 1 FROM information_schema.tables WHERE table_schema = ? AND table_name = ?)"

// Unfinished reports whether a database is marked by MarkUnfinished.
func (s *Server) Unfinished(ctx context.Context, database string) (marked bool, err error) {
	err = s.reads.QueryRowContext(ctx, hasTable, database, UnfinishedTable(database)).Scan(&marked)
	return marked, s.explain("read database "+database, err)
}

// UnfinishedDatabases lists the databases that are marked by MarkUnfinished.
func (s *Server) UnfinishedDatabases(ctx context.Context) ([]string, error) {
	all, err := names(ctx, s.reads, "SELECT table_schema FROM information_schema.tables WHERE table_name LIKE "+
		"'unfinished %' AND table_name = CONCAT('unfinished ', table_schema)")
	return all, s.explain("list the unfinished databases", err)
}

// MarkUnfinished marks a database that the broker is about to fill. It returns ErrHoldsData if the database is neither
// empty nor marked.
func (on Databases) MarkUnfinished(ctx context.Context, database string) error {
	marked, err := on.unfinished(ctx, database)
	if err != nil || marked {
		return err
	}
	if err := on.mustBeEmpty(ctx, database); err != nil {
		return err
	}
	return on.mark(ctx, database)
}

func (on Databases) mark(ctx context.Context, database string) error {
	err := on.s.exec(ctx, "CREATE TABLE IF NOT EXISTS "+quoteIdentifier(database)+"."+
		quoteIdentifier(UnfinishedTable(database))+" (id INT PRIMARY KEY) ENGINE=InnoDB")
	return explain("mark database "+database, err)
}

func (on Databases) unfinished(ctx context.Context, database string) (marked bool, err error) {
	marked, err = on.s.exists(ctx, hasTable, database, UnfinishedTable(database))
	return marked, explain("read database "+database, err)
}

// MarkFinished undoes MarkUnfinished. It is no error if there is no mark.
func (on Databases) MarkFinished(ctx context.Context, database string) error {
	err := on.s.exec(ctx, "DROP TABLE IF EXISTS "+quoteIdentifier(database)+"."+
		quoteIdentifier(UnfinishedTable(database)))
	return explain("mark database "+database+" as finished", err)
}

// MarkAgain marks a database that was marked before the SQL of a user ran in it, which may have dropped the mark, and
// made the database read-only. It is no error if the database is gone.
func (on Databases) MarkAgain(ctx context.Context, database string) error {
	err := on.mark(ctx, database)
	if hasNumber(err, errDatabaseReadOnly) {
		if err = on.SetReadOnly(ctx, database, false); err == nil {
			err = on.mark(ctx, database)
		}
	}
	if NoDatabase(err) {
		return nil
	}
	return err
}

// DropUnfinished is DropEmpty, which also drops a database with data that MarkUnfinished has marked.
func (on Databases) DropUnfinished(ctx context.Context, database string) error {
	marked, err := on.unfinished(ctx, database)
	if err == nil && !marked {
		err = on.mustBeEmpty(ctx, database)
	}
	if err != nil {
		return err
	}
	return on.Drop(ctx, database)
}

package transfer

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"strings"
)

// snapshot is the source as it was at one moment, seen by several connections.
type snapshot struct {
	conns      []*sql.Conn
	tables     []table
	views      []string
	version    string // of the server
	identities identities
	defined    defined
}

// readSession are the settings of the connections that read. The server must not convert character sets, which would
// lose bytes that are not of the character set, nor time zones. The statements read for as long as the target takes.
const readSession = `SET SESSION character_set_results = NULL, ` + utcSession + `, sql_mode = '',
	net_write_timeout = 600, sql_quote_show_create = 1`

// lockSession are the settings of the connection that locks and describes the tables. Definitions may have bytes that
// are not UTF-8. MySQL's figures of tables would else be up to a day old; MariaDB skips the comment.
const lockSession = `SET SESSION lock_wait_timeout = 5, character_set_results = NULL, sql_mode = '',
	sql_quote_show_create = 1, time_zone = '+00:00'
	/*!80000 , information_schema_stats_expiry = 0 */` + withHidden

// snapshotAttempts is how often the list of tables may change between two queries.
const snapshotAttempts = 5

// takeSnapshot waits until it has a lock on all tables, for which nobody needs a privilege but LOCK TABLES. Writers
// wait while the definitions are read and the connections begin their transactions.
func takeSnapshot(ctx context.Context, from Source, o Options) (*snapshot, error) {
	for attempt := 1; ; attempt++ {
		s, err := trySnapshot(ctx, from, o)
		if err == nil || attempt == snapshotAttempts || !errors.Is(err, ErrChanged) {
			return s, err
		}
	}
}

func trySnapshot(ctx context.Context, from Source, o Options) (s *snapshot, err error) {
	s = &snapshot{}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for range o.Workers + 1 {
		conn, err := open(ctx, from.Rows, readSession, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
		if err != nil {
			return s, ofSource(err)
		}
		s.conns = append(s.conns, conn)
	}
	if s.identities.conn, err = open(ctx, from.Programs, lockSession); err != nil {
		return s, ofSource(err)
	}
	locks, err := open(ctx, from.Rows, lockSession)
	if err != nil {
		return s, ofSource(err)
	}
	defer discard(locks) // that ends the lock
	if err := s.fill(ctx, locks, from, o); err != nil || o.Locked == nil {
		return s, err
	}
	return s, ofSource(o.Locked(ctx))
}

func (s *snapshot) fill(ctx context.Context, locks *sql.Conn, from Source, o Options) error {
	before, _, err := listTables(ctx, locks)
	if err != nil {
		return sourceFailure(err)
	}
	if len(before) > 0 {
		reads := make([]string, len(before))
		for n, t := range before {
			reads[n] = t.String() + " READ"
		}
		_, err := locks.ExecContext(ctx, "LOCK TABLES "+strings.Join(reads, ", "))
		if number(err) == errLockWaitTimeout {
			return errors.Join(ErrLocked, ofSource(err))
		}
		if err != nil {
			return sourceFailure(err)
		}
	}
	if s.tables, s.views, err = listTables(ctx, locks); err != nil {
		return sourceFailure(err)
	}
	if !slices.EqualFunc(before, s.tables, func(a, b table) bool {
		return a.Name == b.Name && a.Sequence == b.Sequence && a.Versioned == b.Versioned
	}) {
		return ErrChanged
	}
	var justNow string
	if err := locks.QueryRowContext(ctx, "SELECT VERSION(), CAST(NOW() - INTERVAL 1 SECOND AS CHAR)").
		Scan(&s.version, &justNow); err != nil {
		return ofSource(err)
	}
	s.identities.mariaDB = strings.Contains(s.version, "MariaDB")
	for n := range s.tables {
		t := &s.tables[n]
		describe := func() error { return t.describe(ctx, locks, from.Database) }
		if err := from.ask(ctx, "table "+t.Name, describe); err != nil {
			return sourceFailure(err)
		}
		if err := t.mendTexts(ctx, s.identities.conn); err != nil {
			return sourceFailure(err)
		}
		if err := s.defined.add(len(t.Create), o); err != nil {
			return err
		}
	}
	if err := s.identify(ctx, justNow); err != nil {
		return sourceFailure(err)
	}
	if err := readColumns(ctx, locks, s.identities.mariaDB, s.tables); err != nil {
		return sourceFailure(err)
	}
	for n := range s.tables {
		s.tables[n].prunes = partitions.MatchString(s.tables[n].Create)
		s.tables[n].readSessionValues(s.identities.mariaDB)
	}
	if err := readKeys(ctx, locks, s.tables); err != nil {
		return sourceFailure(err)
	}
	for _, conn := range s.conns {
		for _, statement := range []string{"START TRANSACTION WITH CONSISTENT SNAPSHOT", "SAVEPOINT begun"} {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return ofSource(err)
			}
		}
	}
	return nil
}

// release ends the wait of statements that change the definition of a table which the connection has read. The snapshot
// stays. https://dev.mysql.com/doc/refman/8.4/en/metadata-locking.html
//
// Until then, the name cannot become that of another table: whoever has read rows calls releaseRead.
func release(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, "ROLLBACK TO SAVEPOINT begun")
	return ofSource(err)
}

// releaseRead is release of a connection that has read the rows of a chunk. It returns ErrChanged if these are of
// another table than that of the snapshot.
func (s *snapshot) releaseRead(ctx context.Context, conn *sql.Conn, k chunk) error {
	return cmp.Or(s.identities.check(ctx, conn, k.table), release(ctx, conn))
}

// sourceFailure tells errors that a change of the source's tables causes from others.
func sourceFailure(err error) error {
	if _, ok := errors.AsType[*RefusedError](err); ok {
		return err
	}
	switch number(err) {
	case errNoSuchTable, errDefChanged, 1054: // no such column
		return errors.Join(ErrChanged, ofSource(err))
	}
	return ofSource(err)
}

// discard closes a connection instead of returning it to its pool with its settings, locks and transaction.
func discard(conn *sql.Conn) {
	_ = conn.Raw(func(any) error { return driver.ErrBadConn })
	_ = conn.Close()
}

func (s *snapshot) close() {
	for _, conn := range append(s.conns, s.identities.conn) {
		if conn != nil {
			discard(conn)
		}
	}
}

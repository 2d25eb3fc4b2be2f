package mysqladmin

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// MarkDatabase is where brokers keep their high-water marks on a shared server. Its name is one that the broker's
// account may use and that no instance's database ever has. Tenants have no privileges there.
const MarkDatabase = DatabasePrefix + "broker_marks"

// markTables create the database and its tables. Brokers may share a server: each row has the identity of its broker's
// PostgreSQL.
var markTables = []string{
	"CREATE DATABASE IF NOT EXISTS " + MarkDatabase + " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin",
	"CREATE TABLE IF NOT EXISTS " + MarkDatabase + `.mark (
		identity  VARCHAR(64) NOT NULL PRIMARY KEY,
		task_id   BIGINT NOT NULL,
		task_at   BIGINT NOT NULL,
		listed_at BIGINT NOT NULL,
		marked_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
	) ENGINE = InnoDB`,
	"CREATE TABLE IF NOT EXISTS " + MarkDatabase + `.instance (
		identity      VARCHAR(64) NOT NULL,
		database_name VARCHAR(64) NOT NULL,
		about         MEDIUMTEXT NOT NULL,
		PRIMARY KEY (identity, database_name)
	) ENGINE = InnoDB`,
	"CREATE TABLE IF NOT EXISTS " + MarkDatabase + `.mixture (
		database_name VARCHAR(64) NOT NULL PRIMARY KEY,
		backup_id     VARCHAR(64) NOT NULL
	) ENGINE = InnoDB`,
}

// Mark is what a broker has recorded on a server about its PostgreSQL.
type Mark struct {
	TaskID   int64 // the latest task, 0 if there was none
	TaskAt   time.Time
	ListedAt time.Time // changes of instances until then are listed; zero if none ever were
}

// ListedInstance is what a broker has recorded on a server about an instance whose database is there.
type ListedInstance struct {
	Database string
	About    string
}

// MarkReader is the Marks of a server, or a Session on it.
type MarkReader interface {
	// ReadMark reads the mark of the PostgreSQL of that identity. found is false where there is none.
	ReadMark(ctx context.Context, identity string) (m Mark, found bool, err error)
}

// ReadMark implements MarkReader.
func (on Marks) ReadMark(ctx context.Context, identity string) (m Mark, found bool, err error) {
	return on.readMark(ctx, on.s.reads, identity)
}

// ReadMark implements MarkReader on the connection of the session lock: if tenants use all other connections, the
// broker may not get a second one.
func (s *Session) ReadMark(ctx context.Context, identity string) (m Mark, found bool, err error) {
	m, found, err = s.server.Marks.readMark(ctx, s.conn, identity)
	if err != nil {
		s.failed = true
	}
	return m, found, err
}

func (on Marks) readMark(ctx context.Context, from queryer, identity string) (m Mark, found bool, err error) {
	var at, listed int64
	err = from.QueryRowContext(ctx, "SELECT task_id, task_at, listed_at FROM "+MarkDatabase+".mark WHERE identity = ?",
		identity).Scan(&m.TaskID, &at, &listed)
	if errors.Is(err, sql.ErrNoRows) || noMarks(err) {
		return Mark{}, false, nil
	}
	if m.TaskAt = time.UnixMicro(at); listed > 0 {
		m.ListedAt = time.UnixMicro(listed)
	}
	return m, err == nil, on.s.explain("read the mark", err)
}

// WriteMark replaces the mark of the PostgreSQL of that identity. It creates the database if it does not exist.
func (on Marks) WriteMark(ctx context.Context, identity string, m Mark) error {
	var listed int64
	if !m.ListedAt.IsZero() {
		listed = m.ListedAt.UnixMicro()
	}
	err := on.withMarks(ctx, "REPLACE INTO "+MarkDatabase+`.mark (identity, task_id, task_at, listed_at)
		VALUES (?, ?, ?, ?)`, identity, m.TaskID, m.TaskAt.UnixMicro(), listed)
	return on.s.explain("write the mark", err)
}

// listAtOnce bounds the length of a statement: contexts of instances may be some kilobytes long.
const listAtOnce = 50

// ListInstances records on the server what the broker knows about instances whose databases are there.
func (on Marks) ListInstances(ctx context.Context, identity string, all []ListedInstance) error {
	for some := range slices.Chunk(all, listAtOnce) {
		var values []any
		for _, i := range some {
			values = append(values, identity, i.Database, i.About)
		}
		rows := strings.TrimSuffix(strings.Repeat("(?, ?, ?), ", len(some)), ", ")
		err := on.withMarks(ctx, "REPLACE INTO "+MarkDatabase+".instance (identity, database_name, about) VALUES "+rows,
			values...)
		if err != nil {
			return on.s.explain("list instances", err)
		}
	}
	return nil
}

// ListedInstances reads what is recorded on the server about the instances whose databases are still there.
func (on Marks) ListedInstances(ctx context.Context, identity string) (all []ListedInstance, err error) {
	err = EachRow(ctx, on.s.reads, "SELECT i.database_name, i.about FROM "+MarkDatabase+`.instance i
		JOIN information_schema.schemata d ON d.schema_name = i.database_name WHERE i.identity = ?`,
		func(rows *sql.Rows) error {
			var i ListedInstance
			err := rows.Scan(&i.Database, &i.About)
			all = append(all, i)
			return err
		}, identity)
	if noMarks(err) {
		return nil, nil
	}
	return all, on.s.explain("read the listed instances", err)
}

// ForgetListed deletes what is recorded on the server about instances whose databases are not there any more.
func (on Marks) ForgetListed(ctx context.Context, identity string) error {
	return on.s.explain("forget listed instances", on.withMarks(ctx, "DELETE FROM "+MarkDatabase+`.instance
		WHERE identity = ? AND database_name NOT IN (SELECT schema_name FROM information_schema.schemata)`, identity))
}

// Unlist forgets what is recorded on the server about the instance of a database.
func (on Marks) Unlist(ctx context.Context, identity, database string) error {
	return on.s.explain("forget a listed instance", on.withMarks(ctx, "DELETE FROM "+MarkDatabase+`.instance
		WHERE identity = ? AND database_name = ?`, identity, database))
}

// MarkMixture records on the server, which may be a dedicated one, that the data of a database is being replaced, and
// which backup has all of it. The mark is for a broker whose PostgreSQL was lost as well.
func (on Databases) MarkMixture(ctx context.Context, database, backup string) error {
	for _, create := range markTables {
		if err := on.s.exec(ctx, create); err != nil {
			return fmt.Errorf("create the marks: %w", err)
		}
	}
	err := on.s.exec(ctx, "REPLACE INTO "+MarkDatabase+".mixture VALUES (?, ?)", database, backup)
	if err != nil {
		return fmt.Errorf("mark database %s as a mixture: %w", database, err)
	}
	return nil
}

// EndMixture undoes MarkMixture.
func (on Databases) EndMixture(ctx context.Context, database string) error {
	err := on.s.exec(ctx, "DELETE FROM "+MarkDatabase+".mixture WHERE database_name = ?", database)
	if err != nil && !noMarks(err) {
		return fmt.Errorf("mark database %s as no mixture: %w", database, err)
	}
	return nil
}

// Mixtures returns the databases that MarkMixture has marked, and the backup that each has all data of.
func (s *Server) Mixtures(ctx context.Context) (all map[string]string, err error) {
	all = map[string]string{}
	err = readPairs(ctx, s.reads, all, "SELECT database_name, backup_id FROM "+MarkDatabase+".mixture")
	if noMarks(err) {
		return nil, nil
	}
	return all, s.explain("list the databases with a mixture", err)
}

// withMarks runs a statement. If the database or a table does not exist, it creates them and runs the statement again.
// It changes nothing that belongs to a tenant, and so needs no Session.
func (on Marks) withMarks(ctx context.Context, statement string, args ...any) error {
	_, err := on.s.reads.ExecContext(ctx, statement, args...)
	if !noMarks(err) {
		return err
	}
	for _, table := range markTables {
		if _, err := on.s.reads.ExecContext(ctx, table); err != nil {
			return err
		}
	}
	_, err = on.s.reads.ExecContext(ctx, statement, args...)
	return err
}

func noMarks(err error) bool { return hasNumber(err, errNoSuchDatabase, errNoSuchTable) }

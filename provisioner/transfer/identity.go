package transfer

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"

	"mysql-broker/provisioner/mysqladmin"
)

// identities tells whether a name is still that of the table that the snapshot found under it. A transaction reads
// tables by their names, and RENAME TABLE and EXCHANGE PARTITION give a name to another table. If that one is as old as
// the snapshot, whoever reads it gets no error.
//
// InnoDB's numbers tell tables apart, but MariaDB goes through the tables of all databases to read them. There the time
// of creation tells as much, because RENAME TABLE sets it, unless the table was created in the second of the snapshot,
// or the database has partitions, which can be exchanged.
type identities struct {
	mariaDB bool

	mu   sync.Mutex
	conn *sql.Conn // of an account that may read the views of InnoDB
}

// identify records what each table is. The caller has all of them locked. File systems can be a moment behind the
// clock.
func (s *snapshot) identify(ctx context.Context, justNow string) (err error) {
	i := &s.identities
	byNumber := !i.mariaDB || slices.ContainsFunc(s.tables, func(t table) bool { return partitions.MatchString(t.Create) })
	isNew := func(t table) bool { return t.created >= justNow }
	numbers := map[string]string{}
	if len(s.tables) > 0 && (byNumber || slices.ContainsFunc(s.tables, isNew)) {
		database, _, _ := strings.Cut(s.tables[0].file, "/")
		if numbers, err = i.numbers(ctx, "name LIKE "+i.literal(escapedPattern(database)+"/%")); err != nil {
			return err
		}
	}
	for n := range s.tables {
		t := &s.tables[n]
		t.identity = t.created
		if number := numbers[t.file]; number != "" && (byNumber || isNew(*t)) {
			t.identity, t.byNumber = number, true
		}
	}
	return nil
}

// check returns ErrChanged unless a table is still what it was. The connection has read from it in a transaction, which
// keeps others from renaming it.
func (i *identities) check(ctx context.Context, from *sql.Conn, t *table) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.mariaDB { // on MySQL, the transaction sees the names of its snapshot
		from = i.conn
	}
	var identity string
	if t.byNumber {
		numbers, err := i.numbers(ctx, "name = "+i.literal(t.file)+" OR name LIKE "+
			i.literal(escapedPattern(t.file)+"#"+i.partition()+"#%"))
		if err != nil {
			return ofSource(err)
		}
		identity = numbers[t.file]
	} else if err := from.QueryRowContext(ctx, "SELECT COALESCE(MAX(create_time), '') FROM information_schema.tables "+
		"WHERE table_schema = DATABASE() AND table_name = "+utf8Literal(t.Name)).Scan(&identity); err != nil {
		return ofSource(err)
	}
	if identity != t.identity {
		return fmt.Errorf("%w: %s is another table", ErrChanged, t.Name)
	}
	return nil
}

// numbers returns the numbers of InnoDB's tables or tablespaces by the names of tables, those of all partitions in one.
// A MySQL table in a tablespace of several tables has none.
func (i *identities) numbers(ctx context.Context, where string) (map[string]string, error) {
	query := "SELECT name, space FROM information_schema.innodb_tablespaces_brief WHERE " + where
	if i.mariaDB {
		query = "SELECT name, table_id FROM (SELECT CAST(name AS BINARY) AS name, table_id FROM " +
			"information_schema.innodb_sys_tables) AS t WHERE " + where
	}
	all := map[string]string{}
	err := mysqladmin.EachRow(ctx, i.conn, query+" ORDER BY 1, 2", func(rows *sql.Rows) error {
		var name, number string
		err := rows.Scan(&name, &number)
		table, partition, _ := strings.Cut(name, "#"+i.partition()+"#")
		if partition != "" {
			all[table] += " " + partition + " " + number
		}
		all[name] += " " + number
		return err
	})
	return all, err
}

// partition is what the names of partitions have between two #.
func (i *identities) partition() string {
	if i.mariaDB {
		return "P"
	}
	return "p"
}

func (i *identities) literal(text string) string {
	charset := "_utf8mb3" // that of the column, or its index would not be used
	if i.mariaDB {
		charset = "_binary"
	}
	return string(appendQuoted([]byte(charset), []byte(text)))
}

// escapedPattern is a pattern of LIKE for a text.
func escapedPattern(text string) string {
	return strings.NewReplacer(`\`, `\\`, "%", `\%`, "_", `\_`).Replace(text)
}

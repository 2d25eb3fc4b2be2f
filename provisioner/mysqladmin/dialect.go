package mysqladmin

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Flavour is the kind of a server, MySQL or MariaDB, and its version.
type Flavour struct {
	Name    string // "MySQL" or "MariaDB"
	Version string // as the server reports it, such as "8.0.36" or "10.11.19-MariaDB-log"
}

// Names of flavours.
const (
	MySQL   = "MySQL"
	MariaDB = "MariaDB"
)

// String is for people: "MySQL 8.0.36".
func (f Flavour) String() string { return f.Name + " " + f.Version }

// Number is the version without what comes after its numbers: "10.11.19".
func (f Flavour) Number() string {
	if end := strings.IndexFunc(f.Version, func(r rune) bool { return r != '.' && (r < '0' || r > '9') }); end >= 0 {
		return f.Version[:end]
	}
	return f.Version
}

// Flavour asks the server for its flavour. A version that is not supported is an error.
func (s *Server) Flavour(ctx context.Context) (Flavour, error) {
	var version string
	if err := s.reads.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return Flavour{}, s.explain("ask for the version", err)
	}
	f, err := parseVersion(version)
	return f, s.explain("ask for the version", err)
}

// Uptime asks a server for its flavour, and for how long it has run at least. A server counts how often the second of
// its clock has changed, which is up to a second too much.
func (s *Server) Uptime(ctx context.Context) (f Flavour, up time.Duration, err error) {
	if f, err = s.Flavour(ctx); err != nil {
		return f, 0, err
	}
	var seconds int64
	err = s.reads.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(new(string), &seconds)
	return f, time.Duration(max(seconds-1, 0)) * time.Second, s.explain("ask for the uptime", err)
}

// numbers are those of the version. Missing ones are 0.
func (f Flavour) numbers() (n [3]int) {
	_, _ = fmt.Sscanf(f.Version, "%d.%d.%d", &n[0], &n[1], &n[2])
	return n
}

// before reports whether the version is older than another.
func (f Flavour) before(version ...int) bool {
	own := f.numbers()
	return slices.Compare(own[:], version) < 0
}

// parseVersion derives the flavour from the result of VERSION().
// https://mariadb.com/docs/server/reference/sql-functions/secondary-functions/information-functions/version
func parseVersion(version string) (Flavour, error) {
	f := Flavour{Name: MySQL, Version: version}
	if strings.Contains(version, MariaDB) {
		f.Name = MariaDB
	}
	var major, minor int
	if _, err := fmt.Sscanf(version, "%d.%d", &major, &minor); err != nil {
		return Flavour{}, fmt.Errorf("version %q is not understood: %w", version, err)
	}
	oldestMajor, oldestMinor := Oldest(f.Name)
	if major < oldestMajor || major == oldestMajor && minor < oldestMinor {
		return Flavour{}, fmt.Errorf("%s is too old: %d.%d or later is needed", f, oldestMajor, oldestMinor)
	}
	return f, nil
}

// Oldest is the oldest version supported of the flavour with that name.
func Oldest(name string) (major, minor int) {
	oldest := dialects[name].oldest
	return oldest.major, oldest.minor
}

// Kinds of clusters.
const (
	galera           = "Galera"
	groupReplication = "Group Replication"
)

// dialect holds what differs between the two flavours.
type dialect struct {
	oldest struct{ major, minor int } // version supported

	// identified is the clause of CREATE USER and ALTER USER for a password. Its argument is the result of hash.
	// MySQL: https://dev.mysql.com/doc/refman/8.4/en/create-user.html
	// MariaDB: https://mariadb.com/docs/server/reference/sql-statements/account-management-sql-statements/create-user
	identified string
	cluster    string // what its clusters are
	hash       func(password string) string

	// adminPrivileges are those that ALL PRIVILEGES on a database has besides EVENT and the privileges of ReadWrite.
	adminPrivileges string

	// pending reports whether a connection belongs to PendingLogins.
	pending func(connection) bool

	// defining is the prefix of a query for what an account defines. It bounds the query on MariaDB, where tenants can
	// make it slow: MariaDB opens tables for it, and waits for tables that are being created.
	defining string

	// definesPrograms is a condition, which takes a database and a definer twice: that this defines a routine or an event.
	definesPrograms string

	// readRoutines is the privilege to read the text of all routines of the server, which dumps need for those of other
	// accounts; "" if there is none. MariaDB has such a privilege for a database since 11.3, which the role Admin
	// includes. Before that, it shows them only to accounts that may read all of mysql.proc.
	// https://dev.mysql.com/doc/refman/8.4/en/show-create-procedure.html
	// https://mariadb.com/kb/en/show-create-procedure/
	readRoutines string

	// tablespaces is the view of InnoDB's tablespaces, where NAME is "database/table".
	tablespaces string

	// inSharedTablespaces is a query for the databases that match a pattern and have InnoDB tables in shared tablespaces.
	inSharedTablespaces string

	// features is a query for the values that are not system variables.
	features string

	// openingTables is the prefix of a query of information_schema.TABLES, for which MariaDB opens every table. It bounds
	// the wait for tables that another statement is creating, and ends a query whose client has given up.
	// https://mariadb.com/docs/server/reference/sql-statements/administrative-sql-statements/set-commands/set-statement
	openingTables string

	// tablespaceName converts the name of a database or table to its form in NAME: MariaDB encodes it as in file names,
	// x@002dy for x-y. Names that differ only in case are different.
	tablespaceName string
}

var dialects = map[string]dialect{
	MySQL: {
		oldest:              struct{ major, minor int }{8, 0},
		cluster:             groupReplication,
		identified:          "IDENTIFIED WITH caching_sha2_password AS ?",
		hash:                sha2Hash,
		pending:             pendingOnMySQL,
		definesPrograms:     definesPrograms,
		readRoutines:        "SHOW_ROUTINE",
		tablespaces:         "information_schema.INNODB_TABLESPACES",
		inSharedTablespaces: sharedOnMySQL,
		features:            engines,
		tablespaceName:      "CAST(%s AS BINARY)",
	},
	MariaDB: {
		oldest:     struct{ major, minor int }{10, 6},
		cluster:    galera,
		identified: "IDENTIFIED VIA mysql_native_password USING ?",
		hash:       nativeHash,
		// SHOW CREATE ROUTINE too, from 11.3 on: see Session.tryLock.
		adminPrivileges:     ", DELETE HISTORY",
		pending:             func(connection) bool { return false },
		defining:            "SET STATEMENT max_statement_time = 5 FOR ",
		definesPrograms:     definesProgramsMariaDB,
		tablespaces:         "information_schema.INNODB_SYS_TABLESPACES",
		inSharedTablespaces: sharedOnMariaDB,
		features:            plugins,
		openingTables:       "SET STATEMENT lock_wait_timeout = 0, max_statement_time = 30 FOR ",
		tablespaceName:      "CAST(CONVERT(%s USING filename) AS BINARY)",
	},
}

// quoteIdentifier quotes a name for use in a statement. Values go in as arguments.
// https://dev.mysql.com/doc/refman/8.4/en/identifiers.html
func quoteIdentifier(name string) string {
	return "`" + strings.ReplaceAll(name, "`", "``") + "`"
}

// patternEscaper escapes what GRANT takes for wildcards.
var patternEscaper = strings.NewReplacer(`\`, `\\`, `_`, `\_`, `%`, `\%`)

// escapePattern escapes a database's name for GRANT, which takes a pattern: `a_b` would also match axb. mysql.db has
// the escaped name. https://dev.mysql.com/doc/refman/8.4/en/grant.html#grant-quoting
func escapePattern(database string) string {
	return patternEscaper.Replace(database)
}

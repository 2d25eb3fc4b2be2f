package mysqladmin

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
		tablespaces:         "information_schema.INNODB_SYS_TABLESPACES",
		inSharedTablespaces: sharedOnMariaDB,
		features:            plugins,
		openingTables:       "SET STATEMENT lock_wait_timeout = 0, max_statement_time = 30 FOR ",
		tablespaceName:      "CAST(CONVERT(%s USING filename) AS BINARY)",
	},
}

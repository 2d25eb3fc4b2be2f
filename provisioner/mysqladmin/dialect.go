package mysqladmin

// dialect is where the two flavours differ.
type dialect struct {
	oldest struct{ major, minor int } // version supported

	// identified takes what hash makes of a password, and follows an account's name in CREATE USER and ALTER USER.
	// MySQL: https://dev.mysql.com/doc/refman/8.4/en/create-user.html
	// MariaDB: https://mariadb.com/docs/server/reference/sql-statements/account-management-sql-statements/create-user
	identified string
	hash       func(password string) string

	// adminPrivileges are what ALL PRIVILEGES on a database has beside EVENT and the privileges of ReadWrite.
	adminPrivileges string

	// pending tells whether a connection belongs to PendingLogins.
	pending func(connection) bool

	// defining goes before a question for what an account defines, and bounds how long it takes where tenants can make it
	// slow: MariaDB opens tables for it, and waits for those that are being made.
	defining string

	// readRoutines is the privilege to be shown the text of all routines of the server, which dumps need of those that
	// other accounts made; "" where there is none: MariaDB has one for a database from 11.3 on, which Admin has by itself,
	// and before that shows them only to who may read all of mysql.proc.
	// https://dev.mysql.com/doc/refman/8.4/en/show-create-procedure.html
	// https://mariadb.com/kb/en/show-create-procedure/
	readRoutines string

	// tablespaces is the view of InnoDB's tablespaces, where NAME is "database/table".
	tablespaces string

	// inSharedTablespaces is a query that takes a pattern for databases, and yields those with tables of InnoDB's in
	// shared tablespaces.
	inSharedTablespaces string

	// features is a query for what values has besides the system variables.
	features string

	// openingTables goes before a query of information_schema.TABLES. MariaDB opens every table for it: those that another
	// statement makes, for as long as that takes, are not waited for, and a query whose asker has given up ends too.
	// https://mariadb.com/docs/server/reference/sql-statements/administrative-sql-statements/set-commands/set-statement
	openingTables string

	// tablespaceName makes a database's or table's name what NAME holds: MariaDB writes it as it names the files,
	// x@002dy for x-y. Names that differ in case alone are different.
	tablespaceName string
}

var dialects = map[string]dialect{
	MySQL: {
		oldest:              struct{ major, minor int }{8, 0},
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
		identified: "IDENTIFIED VIA mysql_native_password USING ?",
		hash:       nativeHash,
		// SHOW CREATE ROUTINE too, from 11.3 on: see opened.lock.
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

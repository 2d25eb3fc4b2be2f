package mysqladmin

// dialect is where the two flavours differ.
type dialect struct {
	oldest struct{ major, minor int } // version supported

	// identified takes a password and follows an account's name in CREATE USER and ALTER USER.
	// MySQL: https://dev.mysql.com/doc/refman/8.4/en/create-user.html
	// MariaDB: https://mariadb.com/docs/server/reference/sql-statements/account-management-sql-statements/create-user
	identified string

	// size takes a database and yields the bytes of its tablespaces. NAME is "database/table", which MariaDB
	// writes as it names the files: x@002dy for x-y.
	size string
}

var dialects = map[string]dialect{
	MySQL: {
		oldest:     struct{ major, minor int }{8, 0},
		identified: "IDENTIFIED WITH caching_sha2_password BY ?",
		size: `SELECT CAST(COALESCE(SUM(FILE_SIZE), 0) AS SIGNED) FROM information_schema.INNODB_TABLESPACES
			WHERE SUBSTRING_INDEX(NAME, '/', 1) = ?`,
	},
	MariaDB: {
		oldest:     struct{ major, minor int }{10, 6},
		identified: "IDENTIFIED VIA mysql_native_password USING PASSWORD(?)",
		size: `SELECT CAST(COALESCE(SUM(FILE_SIZE), 0) AS SIGNED) FROM information_schema.INNODB_SYS_TABLESPACES
			WHERE SUBSTRING_INDEX(NAME, '/', 1) = CAST(CONVERT(? USING filename) AS BINARY)`,
	},
}

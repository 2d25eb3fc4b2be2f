package mysqladmin

// privileges of each role, given on its database and nowhere else.
// https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html
var privileges = map[Role]string{
	ReadOnly: "SELECT, SHOW VIEW",
	ReadWrite: "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, " +
		"LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, EVENT, TRIGGER",
	Admin: "ALL PRIVILEGES", // GRANT OPTION is not one of them
}

// grantStatement takes the account's name.
func grantStatement(role Role, database string) string {
	return "GRANT " + privileges[role] + " ON " + quoteIdentifier(escapePattern(database)) + ".* TO ?@'%'"
}

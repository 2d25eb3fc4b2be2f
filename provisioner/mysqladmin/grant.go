package mysqladmin

import (
	"strings"

	"mysql-broker/provisioner/plan"
)

// privileges of each role, granted on its database and nowhere else.
// https://dev.mysql.com/doc/refman/8.4/en/privileges-provided.html
var privileges = map[plan.Role]string{
	plan.ReadOnly: "SELECT, SHOW VIEW",
	plan.ReadWrite: "SELECT, INSERT, UPDATE, DELETE, CREATE, DROP, REFERENCES, INDEX, ALTER, CREATE TEMPORARY TABLES, " +
		"LOCK TABLES, EXECUTE, CREATE VIEW, SHOW VIEW, CREATE ROUTINE, ALTER ROUTINE, TRIGGER",
	plan.Admin: allPrivileges,
}

const (
	allPrivileges  = "ALL PRIVILEGES" // GRANT OPTION is not one of them
	eventPrivilege = "EVENT"
)

// grantStatement grants a role's privileges, and EVENT if the account may have it. Its argument is the account's name.
func (d dialect) grantStatement(role plan.Role, events bool, database string) string {
	list := privileges[role]
	switch {
	case role == plan.Admin && !events:
		list = strings.Join(d.list(role), ", ")
	case role == plan.ReadWrite && events:
		list += ", " + eventPrivilege
	}
	return grant(list, database)
}

// list are the privileges of a role that may write, without EVENT.
func (d dialect) list(role plan.Role) []string {
	list := privileges[plan.ReadWrite]
	if role == plan.Admin {
		list += d.adminPrivileges
	}
	return strings.Split(list, ", ")
}

// grant grants some privileges on a database. Its argument is the account's name.
func grant(privileges, database string) string {
	return "GRANT " + privileges + " ON " + anyTable(database) + " TO ?@'%'"
}

// anyTable is how GRANT and REVOKE name everything in a database.
func anyTable(database string) string { return quoteIdentifier(escapePattern(database)) + ".*" }

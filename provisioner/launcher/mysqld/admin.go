package mysqld

import "fmt"

// AdminSQL returns the content of an init file, one statement per line, that creates the only account of a new server.
// The arguments are not escaped: the caller has checked them.
func AdminSQL(user, password string) []byte {
	account := "'" + user + "'@'%'"
	return fmt.Appendf(nil, "CREATE USER %s IDENTIFIED BY '%s';\nGRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION;\n",
		account, password, account)
}

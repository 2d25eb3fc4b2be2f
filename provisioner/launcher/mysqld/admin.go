package mysqld

import "fmt"

// AdminSQL makes the one account that a new server has, for an init file, which holds one statement a line. Neither
// argument is escaped: the caller has checked them.
func AdminSQL(user, password string) []byte {
	account := "'" + user + "'@'%'"
	return fmt.Appendf(nil, "CREATE USER %s IDENTIFIED BY '%s';\nGRANT ALL PRIVILEGES ON *.* TO %s WITH GRANT OPTION;\n",
		account, password, account)
}

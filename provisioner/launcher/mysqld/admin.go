package mysqld

import (
	"errors"
	"fmt"
	"regexp"
)

// Neither needs escaping in SQL.
var (
	validUser     = regexp.MustCompile(`^[A-Za-z0-9_]{1,32}$`)
	validPassword = regexp.MustCompile(`^[A-Za-z0-9_.~-]+$`)
)

// CheckAdmin returns an error if AdminSQL cannot create an account of that name with that password. The error does not
// contain the password.
func CheckAdmin(user, password string) error {
	if !validUser.MatchString(user) || user == "root" {
		return fmt.Errorf("the admin account %q is not a valid name", user)
	}
	return CheckAdminPassword(password)
}

// CheckAdminPassword is CheckAdmin for a password alone.
func CheckAdminPassword(password string) error {
	if !validPassword.MatchString(password) {
		return errors.New("the admin password is empty or not URL-safe")
	}
	return nil
}

// AdminSQL returns the content of an init file, one statement per line, that creates the only account of a new server.
// It may run again, also after a server that crashed in between. The arguments are not escaped: CheckAdmin must have
// accepted them.
func AdminSQL(user, password string) []byte {
	account := "'" + user + "'@'%'"
	return fmt.Appendf(nil, "CREATE USER IF NOT EXISTS %[1]s;\nALTER USER %[1]s IDENTIFIED BY '%[2]s';\n"+
		"GRANT ALL PRIVILEGES ON *.* TO %[1]s WITH GRANT OPTION;\n", account, password)
}

// ReloadCertificate are the statements that make a server reload its certificate; sessions stay open.
// https://dev.mysql.com/doc/refman/8.4/en/alter-instance.html
// https://mariadb.com/kb/en/flush/
var ReloadCertificate = map[string]string{MySQL: "ALTER INSTANCE RELOAD TLS", MariaDB: "FLUSH SSL"}

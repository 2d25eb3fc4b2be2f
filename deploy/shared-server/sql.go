// Package sharedserver is what an operator does on a MySQL or MariaDB server before the broker may use it as a shared
// one: SQL that makes the broker's account, and settings that keep tenants apart.
package sharedserver

import (
	"embed"
	"strings"
)

//go:embed mysql.sql mariadb.sql mysql.cnf mariadb.cnf
var files embed.FS

// Account is the user name that the SQL makes.
const Account = "mysql_broker"

// Statements are those of the SQL for a flavour, "mysql" or "mariadb", in turn and with that password, which goes in as
// it is and must need no escaping. Each stands on a line of its own.
func Statements(flavour, password string) (all []string, err error) {
	sql, err := files.ReadFile(flavour + ".sql")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(sql)) {
		if statement, ok := strings.CutSuffix(strings.TrimSpace(line), ";"); ok && !strings.HasPrefix(line, "--") {
			all = append(all, strings.Replace(statement, "PASSWORD", password, 1))
		}
	}
	return all, nil
}

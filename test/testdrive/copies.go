package testdrive

import (
	"slices"
	"strings"
	"testing"
)

// Cloneable provisions an instance with a table, a view, a routine and a trigger.
func Cloneable(t *testing.T, p Platform, plan string) (Instance, Credentials) {
	t.Helper()
	i := p.Provisioned(t, plan, Body{"context": CloudFoundry})
	return i, MakeObjects(t, i)
}

// ExpectClone uses a copy of a cloneable instance.
func ExpectClone(t *testing.T, i Instance) {
	t.Helper()
	b, c := i.Bound(t, nil)
	db := c.Open(t)
	Exec(t, db, "CALL add_item()")
	if got := ReadAll(t, db, "SELECT name FROM names ORDER BY name"); !slices.Equal(got, []string{"ADDED", "one", "two"}) {
		t.Errorf("the copy has %q", got)
	}
	if marks := ReadAll(t, db, "SHOW TABLES LIKE 'unfinished%'"); len(marks) != 0 {
		t.Errorf("the copy has the tables %q", marks)
	}
	b.Unbind(t)
}

// AccountsOf lists the accounts that were granted something on the database of credentials.
func AccountsOf(t *testing.T, p Platform, c Credentials) []string {
	t.Helper()
	return ReadAll(t, p.Admin(t), "SELECT user FROM mysql.db WHERE db = '"+strings.ReplaceAll(c.Database, "_", `\\_`)+"'")
}

package mysqladmin_test

import (
	"slices"
	"testing"

	"mysql-broker/provisioner/plan"
)

func TestDatabasesAndAccountsAreListed(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a, locked := f.account(plan.ReadOnly), f.account(plan.Admin)
		f.exec(f.root, "ALTER USER "+locked.Name+" ACCOUNT LOCK")
		local := uniqueName("u_") // not one of those that CreateAccount makes
		f.exec(f.root, "CREATE USER "+local+"@localhost")
		defer f.exec(f.root, "DROP USER "+local+"@localhost")
		databases, err := f.server.Databases(t.Context())
		f.must(err)
		if !slices.Contains(databases, f.database) || !slices.Contains(databases, "mysql") {
			t.Errorf("databases %q without %s", databases, f.database)
		}
		accounts, err := f.server.Accounts(t.Context())
		f.must(err)
		if !slices.Contains(accounts, a.Name) || !slices.Contains(accounts, locked.Name) ||
			slices.Contains(accounts, local) {
			t.Errorf("accounts %q, want %s and %s but not %s", accounts, a.Name, locked.Name, local)
		}
	})
}

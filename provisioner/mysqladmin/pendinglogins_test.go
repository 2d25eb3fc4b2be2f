package mysqladmin_test

import (
	"testing"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// At whatever point a client interrupts its login, it has no session once Accounts.Revoke has returned, and gets none by
// continuing.
func TestRevokeAccessEndsLoginsThatStopAnywhere(t *testing.T) {
	stops := map[string]func(*fixture, mysqladmin.Account) *rawLogin{
		"before the name": func(f *fixture, _ mysqladmin.Account) *rawLogin { return f.dialRaw() },
		"after the name": func(f *fixture, a mysqladmin.Account) *rawLogin {
			r := f.dialRaw()
			f.must(r.name(a.Name, a.Database))
			return r
		},
	}
	for name, stop := range stops {
		for ending, kept := range map[string]bool{"kept": true, "dropped": false} {
			t.Run(name+", "+ending, func(t *testing.T) {
				onEachServer(t, func(t *testing.T, f *fixture) {
					a := f.account(plan.ReadWrite)
					if kept {
						f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1")
					}
					r := stop(f, a)
					f.expectNoAccess(a, kept)
					var err error
					if name == "before the name" {
						err = r.name(a.Name, a.Database)
					}
					if err == nil {
						err = r.prove(a.Password)
					}
					if err == nil {
						err = r.query("DO 1")
					}
					if err == nil {
						t.Error("a pending login outlived its account")
					}
				})
			})
		}
	}
}

// The accounts of an instance are shut one by one. One wait ends the logins that are pending to any of them.
func TestEndLoginsOfManyAccounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		r := f.dialRaw()
		var names []string
		var pending mysqladmin.PendingLogins
		var last mysqladmin.Account
		for range 5 {
			last = f.account(plan.ReadWrite)
			found, err := f.session.Accounts.Shut(t.Context(), last.Name)
			f.must(err)
			pending.Add(found)
			names = append(names, last.Name)
		}
		f.must(f.session.Accounts.EndLogins(t.Context(), pending, names...))
		err := r.name(last.Name, last.Database)
		if err == nil {
			err = r.prove(last.Password)
		}
		if err == nil && r.query("DO 1") == nil {
			t.Error("a pending login outlived the wait")
		}
		for _, name := range names {
			f.must(f.session.Accounts.DropShut(t.Context(), name))
			f.expectAccount(name, false)
		}
	})
}

// A session can change to another account, and stop in the middle of that. MySQL's SHOW PROCESSLIST hangs meanwhile, so
// that this takes a server with a performance schema.
func TestRevokeAccessEndsAChangeOfAccounts(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour == "mysql" {
			s = testdrive.Private(t, s.Flavour)
		}
		f := newFixture(t, s)
		f.must(f.server.Setup.CheckPrivileges(t.Context()))
		for _, kept := range []bool{true, false} {
			a, other := f.account(plan.ReadWrite), f.account(plan.ReadWrite)
			if kept {
				f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1")
			}
			r := f.dialRaw()
			f.must(r.name(other.Name, other.Database))
			f.must(r.prove(other.Password))
			f.must(r.query("DO 1"))
			f.must(r.change(a.Name, a.Database))
			f.expectNoAccess(a, kept)
			if err := r.prove(a.Password); err == nil {
				if err = r.query("DO 1"); err == nil {
					t.Error("a session of another account became one of an account that was retired")
				}
			}
		}
	})
}

// dialRaw connects, and closes the connection when the test ends.
func (f *fixture) dialRaw() *rawLogin {
	f.t.Helper()
	r, err := dialRaw(f.config.Addr)
	f.must(err)
	f.t.Cleanup(func() { _ = r.conn.Close() })
	return r
}

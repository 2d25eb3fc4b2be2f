package mysqladmin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A client that interrupts its login after the server has read its account has no session once Accounts.Revoke has
// returned, and gets none by continuing.
func TestRevokeAccessEndsLoginsThatStop(t *testing.T) {
	for ending, kept := range map[string]bool{"kept": true, "dropped": false} {
		t.Run(ending, func(t *testing.T) {
			onEachServer(t, func(t *testing.T, f *fixture) {
				a := f.account(plan.ReadWrite)
				if kept {
					f.exec(f.loginAs(a), "CREATE VIEW v AS SELECT 1")
				}
				r := f.nameRaw(a)
				f.expectNoAccess(a, kept)
				f.expectEnded(r, a)
			})
		})
	}
}

// The accounts of an instance are shut one by one. One wait ends the logins that are pending to any of them; on MariaDB,
// nothing waits. Whatever waits lists the server's connections again and again.
func TestEndLoginsOfManyAccounts(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		recorded := tracetest.NewInMemoryExporter()
		ctx, span := trace.NewTracerProvider(trace.WithSyncer(recorded)).Tracer("test").Start(t.Context(), "parent")
		defer span.End()
		listings := func() (n int) {
			for _, s := range recorded.GetSpans() {
				if strings.Contains(strings.ToLower(fmt.Sprint(s.Attributes)), "processlist") {
					n++
				}
			}
			recorded.Reset()
			return n
		}
		var accounts []mysqladmin.Account
		var names []string
		for range 5 {
			a := f.account(plan.ReadWrite)
			accounts, names = append(accounts, a), append(names, a.Name)
		}
		f.exec(f.loginAs(accounts[4]), "CREATE VIEW v AS SELECT 1") // so that MySQL locks it instead of dropping it
		f.dialRaw()                                                 // which has not named an account, and may name any
		logins := []*rawLogin{f.nameRaw(accounts[0]), f.nameRaw(accounts[4])}
		pending := mysqladmin.PendingLogins{}
		for _, name := range names {
			found, err := f.session.Accounts.Shut(ctx, name)
			f.must(err)
			pending.Add(found)
		}
		n := listings()
		assert.Equal(t, len(names), n, "the connections were listed %d times while %d accounts were shut", n, len(names))
		f.must(f.session.Accounts.EndLogins(ctx, pending, names...))
		n = listings()
		assert.False(t, f.config.Name == "mysql" && n < 2 || f.config.Name == "mariadb" && n > 0,
			"the connections were listed %d times in the one wait", n)
		f.expectEnded(logins[0], accounts[0])
		f.expectEnded(logins[1], accounts[4])
		f.must(f.session.Databases.Drop(t.Context(), f.database))
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
				err = r.query("DO 1")
				assert.Error(t, err, "a session of another account became one of an account that was retired")
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

// nameRaw begins a login, and stops when the server has read the account.
func (f *fixture) nameRaw(a mysqladmin.Account) *rawLogin {
	f.t.Helper()
	r := f.dialRaw()
	f.must(r.name(a.Name, a.Database))
	return r
}

// expectEnded fails the test if a login that nameRaw has begun can become a session.
func (f *fixture) expectEnded(r *rawLogin, a mysqladmin.Account) {
	f.t.Helper()
	assert.False(f.t, r.prove(a.Password) == nil && r.query("DO 1") == nil, "a pending login outlived its account")
}

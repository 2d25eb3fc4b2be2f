package mysqladmin_test

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/test/testdrive"
)

func TestCreateAccountAgainLeavesExactlyWhatIsAsked(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		before := f.account(plan.Admin)
		fresh := before
		fresh.Name = uniqueName("u_")
		fresh.Role, fresh.Password, fresh.MaxConnections = plan.ReadOnly, rand.Text(), 2
		after := fresh
		after.Name = before.Name
		f.must(f.session.Accounts.Create(t.Context(), fresh))
		f.exec(f.loginAs(before), "CREATE VIEW v AS SELECT 1") // MySQL does not create definers
		f.exec(f.root, "ALTER USER '"+before.Name+"'@'%' ACCOUNT LOCK")
		for range 2 {
			f.must(f.session.Accounts.Create(t.Context(), after))
		}
		want := strings.ReplaceAll(strings.Join(grants(f, fresh.Name), "\n"), fresh.Name, after.Name)
		got := strings.Join(grants(f, after.Name), "\n")
		assert.Equal(t, want, got, "grants of an account that was created again:\n%s\nwant\n%s", got, want)
		f.must(f.checkLogin(after.Name, after.Password))
		err := f.checkLogin(before.Name, before.Password)
		assert.True(t, testdrive.ErrorNumber(err) == 1045, "the former password: %v", err)
	})
}

// grants returns the grants of an account, without the hash of its password.
func grants(f *fixture, account string) (all []string) {
	f.t.Helper()
	for _, grant := range f.strings(f.t.Context(), "SHOW GRANTS FOR ?@'%'", account) {
		grant, _, _ = strings.Cut(grant, " IDENTIFIED ")
		all = append(all, grant)
	}
	slices.Sort(all)
	return all
}

func (f *fixture) checkLogin(user, password string) error {
	cfg := f.config
	cfg.User, cfg.Password = user, password
	return mysqladmin.CheckLogin(f.t.Context(), cfg, f.database)
}

// Later changes of an account keep whether it requires TLS.
func TestAccountKeepsWhetherItRequiresTLS(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		for _, required := range []bool{true, false} {
			a := mysqladmin.Account{
				Name: uniqueName("u_"), Password: rand.Text(), Database: f.database, Role: plan.ReadWrite,
				MaxConnections: 2, RequireTLS: required,
			}
			f.must(f.session.Accounts.Create(t.Context(), a))
			f.must(f.session.Accounts.SetConnectionLimit(t.Context(), a.Name, 3))
			f.must(f.session.Writes.RemovePrivileges(t.Context(), a.Name, a.Role, a.Database))
			f.must(f.session.Writes.RestorePrivileges(t.Context(), a.Name, a.Role, true, a.Database))
			assert.Equal(t, required, testdrive.ErrorNumber(f.loginAs(a).PingContext(t.Context())) != 0,
				"TLS is required: %v, a login without it is refused", required)
		}
	})
}

func TestErrorsKeepThePasswordToThemselves(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := mysqladmin.Account{
			Name: strings.Repeat("n", 200), Password: rand.Text(), Database: f.database, Role: plan.ReadOnly,
		}
		err := f.session.Accounts.Create(t.Context(), a)
		assert.True(t, testdrive.ErrorNumber(err) != 0 && strings.HasSuffix(err.Error(), "message withheld"),
			"a name that is too long: %v", err)
		err = f.checkLogin("nobody", a.Password)
		assert.True(t, testdrive.ErrorNumber(err) == 1045 && !strings.Contains(err.Error(), a.Password), "a login that fails: %v", err)
	})
}

func TestCheckLoginWantsTheDatabaseToo(t *testing.T) {
	onEachServer(t, func(t *testing.T, f *fixture) {
		a := f.account(plan.ReadOnly)
		f.must(f.checkLogin(a.Name, a.Password))
		cfg := f.config
		cfg.User, cfg.Password = a.Name, a.Password
		err := mysqladmin.CheckLogin(context.Background(), cfg, "mysql")
		assert.EqualValues(t, 1044, testdrive.ErrorNumber(err), "a database the account may not use: %v", err)
	})
}

package doctor_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// An unrecorded account that may use an instance's database cannot be that of another broker.
func TestStrayAndDeviatingAccounts(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		f.bind(i, plan.ReadOnly)
		f.bind(i, plan.Admin)
		b := f.bind(i, plan.ReadWrite)
		f.expect(f.doctor)

		stray := foreign("u_")
		f.exec("CREATE USER "+stray, "GRANT SELECT ON `"+i.Database+"`.* TO "+stray,
			"REVOKE INSERT ON `"+escaped(i.Database)+"`.* FROM "+b.Account)
		defer f.exec("DROP USER " + stray)
		found := f.expect(f.doctor, "stray account "+stray, "deviating account "+b.Account)
		f.refuses(found[0])
		assert.True(f, found[0].InstanceID == i.ID && found[1].BindingID == b.ID, "%+v", found)
		f.repair(found[1], "set as its binding says")
		f.expect(f.doctor, "stray account "+stray)
	})
}

func TestAccountsOnDedicatedServers(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(dedicatedPlan)
		dropped, restricted := f.bind(i, plan.ReadWrite), f.bind(i, plan.ReadWrite)
		f.bind(i, plan.Admin)
		f.expect(f.doctor)

		stray := foreign("u_")
		f.Must(f.Fleet.AsAdmin(f.Context(), i, func(s *mysqladmin.Server) error {
			session, err := s.Lock(f.Context(), "test", func() error { return nil })
			if err != nil {
				return err
			}
			defer session.Close()
			f.Must(session.Accounts.Drop(f.Context(), dropped.Account))
			f.Must(session.Writes.RemovePrivileges(f.Context(), restricted.Account, plan.ReadWrite, i.Database))
			return session.Accounts.Create(f.Context(), mysqladmin.Account{Name: stray, Password: "unused-Passw0rd",
				Database: i.Database, Role: plan.ReadOnly})
		}))
		for _, finding := range f.expect(f.doctor, "stray account "+stray, "missing account "+dropped.Account,
			"deviating account "+restricted.Account) {
			assert.True(f, !finding.Repairable && finding.InstanceID == i.ID && finding.Kind == store.AccountResource,
				"%+v", finding)
			if finding.Problem == doctor.Stray {
				f.refuses(finding)
			}
		}
	})
}

// escaped is a database's name as GRANT and REVOKE take it.
func escaped(database string) string { return strings.ReplaceAll(database, "_", `\_`) }

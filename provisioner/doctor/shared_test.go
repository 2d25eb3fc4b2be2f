package doctor_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/testdrive"
)

// A view breaks if its definer is dropped.
func TestOrphanAccountOfALivingInstance(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		defines, plain := f.bind(i, plan.ReadWrite), f.bind(i, plan.ReadOnly)
		db := f.login(defines.Account, defines.Password, i.Database)
		testdrive.Exec(f.T, db, "CREATE VIEW v AS SELECT 1 AS one")
		f.InTx(func(tx *store.Tx) error {
			tx.DeleteBinding(i.ID, defines.ID)
			tx.DeleteBinding(i.ID, plain.ID)
			return nil
		})
		for _, finding := range f.find(f.doctor) {
			switch finding.Name {
			case plain.Account:
				f.InTx(func(tx *store.Tx) error { // nobody needs to wait for it
					_, err := tx.LockInstance(f.Context(), i.ID)
					f.Must(err)
					f.repair(finding, "dropped")
					return nil
				})
			case defines.Account:
				f.repair(finding, "locked, as objects in the database are defined by it")
			default:
				f.Errorf("%+v", finding)
			}
		}
		assert.True(f, f.accountExists(defines.Account) && !f.accountExists(plain.Account), "the wrong account was dropped")
		assert.Error(f, db.PingContext(f.Context()), "the orphan can still log in")
		f.exec("SELECT one FROM `" + i.Database + "`.v")
		f.expect(f.doctor)
		_, err := f.Broker.Deprovision(f.Context(), instances.DeprovisionRequest{InstanceID: i.ID, Plan: sharedPlan})
		f.Must(err)
		assert.False(f, f.accountExists(defines.Account), "the retired account outlives its instance")
	})
}

// The broker drops nothing that it has no record of, and nothing that is needed, whatever a finding says.
func TestForeignThingsAreListedAndNeverTouched(t *testing.T) {
	eachServer(t, func(f *fixture) {
		database, account := foreign("db_"), foreign("u_")
		f.exec("CREATE DATABASE "+database, "CREATE USER "+account)
		defer f.exec("DROP DATABASE "+database, "DROP USER "+account)
		i := f.Provision(sharedPlan)
		r, err := f.doctor.Examine(f.Context())
		f.Must(err)
		for kind, name := range map[string]string{store.DatabaseResource: database, store.AccountResource: account} {
			at := slices.IndexFunc(r.Findings, func(f doctor.Finding) bool { return f.Name == name })
			if at < 0 {
				f.Errorf("%s is not listed", name)
				continue
			}
			finding := r.Findings[at]
			assert.True(f, finding.Problem == doctor.Unrecorded && finding.Kind == kind && !finding.Repairable, "%+v", finding)
			f.refuses(finding)
			finding.Problem, finding.Repairable = doctor.Orphan, true
			f.refuses(finding)
		}
		f.refuses(doctor.Finding{Problem: doctor.Orphan, Kind: store.DatabaseResource, Server: inprocess.SharedName, Name: i.Database,
			InstanceID: i.ID, Repairable: true})
		assert.True(f, f.databaseExists(database) && f.accountExists(account) && f.databaseExists(i.Database),
			"something was dropped")
	})
}

// An account that is created again requires TLS if it did before, even if new accounts no longer do.
func TestMissingAccountRequiresTLSAsBefore(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		for asked, want := range map[plan.TLS]bool{plan.TLSRequired: true, "": false} {
			b := f.bindWith(i, plan.BindingParameters{Role: plan.ReadOnly, TLS: asked})
			f.exec("DROP USER `" + b.Account + "`")
			f.repair(f.expect(f.doctor, "missing account "+b.Account)[0], "made again")
			created := testdrive.Read[string](f.T, f.Root, "SHOW CREATE USER `"+b.Account+"`@'%'")
			assert.Equal(f, want, strings.Contains(created, "REQUIRE SSL"), "asked for %q: %s", asked, created)
		}
	})
}

func TestMissingAccountIsMadeAgain(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		b := f.bind(i, plan.ReadOnly)
		f.exec("CREATE TABLE `"+i.Database+"`.t (n INT)", "DROP USER `"+b.Account+"`")
		found := f.expect(f.doctor, "missing account "+b.Account)
		assert.True(f, found[0].InstanceID == i.ID && found[0].BindingID == b.ID && found[0].Repairable, "%+v", found[0])
		f.repair(found[0], "made again")
		f.expect(f.doctor)
		db := f.login(b.Account, b.Password, i.Database)
		testdrive.Exec(f.T, db, "SELECT * FROM t")
		assert.Equal(f, sharedPlan.MaxConnections, testdrive.Read[int](f.T, db, "SELECT @@max_user_connections"))
		assert.Error(f, testdrive.ErrorOf(f.T, db, "INSERT INTO t VALUES (1)"), "the read-only account can write")
		f.Must(f.Broker.Unbind(f.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: b.ID}))
		assert.False(f, f.accountExists(b.Account), "the account outlives its binding")
		f.expect(f.doctor)
		f.refuses(found[0])
		assert.False(f, f.accountExists(b.Account), "an old finding brought the account back")
	})
}

// An account of an instance over its quota is created again without the write privileges.
func TestMissingAccountOfAFullInstance(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		b := f.bind(i, plan.ReadWrite)
		f.exec("CREATE TABLE `"+i.Database+"`.t (n INT)", "DROP USER `"+b.Account+"`")
		f.InTx(func(tx *store.Tx) error {
			_, err := tx.LockInstance(f.Context(), i.ID)
			tx.SetOver(i.ID, true)
			return err
		})
		f.repair(f.expect(f.doctor, "missing account "+b.Account)[0], "made again")
		db := f.login(b.Account, b.Password, i.Database)
		testdrive.Exec(f.T, db, "DELETE FROM t")
		assert.Error(f, testdrive.ErrorOf(f.T, db, "INSERT INTO t VALUES (1)"), "the account can add data")
		f.expect(f.doctor)
	})
}

// An account whose unbind has begun is not created again.
func TestMissingAccountIsLeftToItsUnbind(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		b := f.bind(i, plan.ReadWrite)
		f.exec("DROP USER `" + b.Account + "`")
		found := f.expect(f.doctor, "missing account "+b.Account)
		f.InTx(func(tx *store.Tx) error {
			tx.InsertTask(store.NewTask{InstanceID: i.ID, BindingID: b.ID, Kind: store.Unbind,
				PlanID: i.PlanID, Owner: "another broker", LeaseTTL: time.Hour})
			return nil
		})
		f.expect(f.doctor)
		f.refuses(found[0])
		assert.False(f, f.accountExists(b.Account), "the account was made again while it was being unbound")
	})
}

// After the unbind has succeeded, nothing is left, whichever of the two came first.
func TestMissingAccountIsUnboundMeanwhile(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		for range 10 {
			b := f.bind(i, plan.ReadWrite)
			f.exec("DROP USER `" + b.Account + "`")
			found := f.expect(f.doctor, "missing account "+b.Account)
			var repair sync.WaitGroup
			repair.Go(func() {
				if _, err := f.doctor.Repair(f.Context(), found[0]); err != nil {
					f.Logf("the unbind was faster: %v", err)
				}
			})
			err := f.Broker.Unbind(f.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: b.ID})
			repair.Wait()
			f.Must(err)
			require.False(f, f.accountExists(b.Account), "the account outlives its binding")
		}
	})
}

// An unreachable server has no missing objects, because nothing is known about it.
func TestServerThatCannotBeAsked(t *testing.T) {
	eachServer(t, func(f *fixture) {
		f.bind(f.Provision(sharedPlan), plan.ReadWrite)
		moved := f.Config.Shared[0]
		moved.Admin.Addr = fmt.Sprintf("127.0.0.1:%d", testdrive.FreePort(f))
		for name, d := range map[string]*doctor.Doctor{
			"not configured": f.doctorOf(f.OpenShared()), "not answering": f.doctorOf(f.OpenShared(moved)),
		} {
			found := f.expect(d, "unreachable shared server "+inprocess.SharedName)[0]
			assert.False(f, found.Repairable, name)
			assert.Contains(f, found.ToDo, "2 resources", name)
		}
	})
}

func TestAbandonedInstanceIsFound(t *testing.T) {
	eachServer(t, func(f *fixture) {
		f.InTx(func(tx *store.Tx) error {
			return tx.InsertInstance(store.Instance{ID: "half", Location: store.SharedLocation(inprocess.SharedName), Database: foreign("db_")})
		})
		found := f.expect(f.doctor, "abandoned instance")[0]
		assert.True(f, found.InstanceID == "half" && !found.Repairable, "%+v", found)
	})
}

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

package doctor_test

import (
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/engine"
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
		db := defines.login.Open(f.T)
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
		f.Must(f.delete(i))
		assert.False(f, f.accountExists(defines.Account), "the retired account outlives its instance")
	})
}

// The broker drops nothing that it has no record of, and nothing that is needed, whatever a finding says.
func TestForeignThingsAreListedAndNeverTouched(t *testing.T) {
	eachServer(t, func(f *fixture) {
		database, account := engine.NewName("db_"), engine.NewName("u_")
		f.exec("CREATE DATABASE "+database, "CREATE USER "+account)
		defer f.exec("DROP DATABASE "+database, "DROP USER "+account)
		i := f.Provision(sharedPlan)
		r, err := f.doctor.Examine(f.Context())
		f.Must(err)
		for kind, name := range map[string]string{store.DatabaseResource: database, store.AccountResource: account} {
			assert.Equal(f, kind, f.refusesUnrecorded(r, name).Kind)
		}
		f.refuses(doctor.Finding{Problem: doctor.Orphan, Kind: store.DatabaseResource, Server: inprocess.SharedName, Name: i.Database,
			InstanceID: i.ID, Repairable: true})
		assert.True(f, f.databaseExists(database) && f.accountExists(account) && f.databaseExists(i.Database),
			"something was dropped")
	})
}

// lose drops the account of a binding, and returns what the doctor finds.
func (f *fixture) lose(b binding) doctor.Finding {
	f.exec("DROP USER `" + b.Account + "`")
	found := f.expect(f.doctor, "missing account "+b.Account)[0]
	assert.True(f, found.InstanceID == b.InstanceID && found.BindingID == b.ID && found.Repairable, "%+v", found)
	return found
}

// A missing account is created again as it was: it requires TLS if it did before, even if new accounts no longer do. That
// of an instance over its quota has no write privileges.
func TestMissingAccountIsMadeAgain(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i, full := f.Provision(sharedPlan), f.Provision(sharedPlan)
		f.exec("CREATE TABLE `"+i.Database+"`.t (n INT)", "CREATE TABLE `"+full.Database+"`.t (n INT)")
		f.InTx(func(tx *store.Tx) error {
			_, err := tx.LockInstance(f.Context(), full.ID)
			tx.SetOver(full.ID, true)
			return err
		})
		again := func(i store.Instance, p plan.BindingParameters) (b binding, db *sql.DB, found doctor.Finding) {
			b = f.bindWith(i, p)
			found = f.lose(b)
			f.repair(found, "made again")
			f.expect(f.doctor)
			return b, b.login.Open(f.T), found
		}
		requiresTLS := func(b binding) bool {
			return strings.Contains(testdrive.Read[string](f.T, f.Root, "SHOW CREATE USER `"+b.Account+"`@'%'"), "REQUIRE SSL")
		}
		secure, _, _ := again(i, plan.BindingParameters{Role: plan.ReadOnly, TLS: plan.TLSRequired})
		b, db, found := again(i, plan.BindingParameters{Role: plan.ReadOnly})
		assert.True(f, requiresTLS(secure) && !requiresTLS(b), "TLS")
		testdrive.Exec(f.T, db, "SELECT * FROM t")
		assert.Equal(f, sharedPlan.MaxConnections, testdrive.Read[int](f.T, db, "SELECT @@max_user_connections"))
		assert.Error(f, testdrive.ErrorOf(f.T, db, "INSERT INTO t VALUES (1)"), "the read-only account can write")
		f.unbind(b)
		assert.False(f, f.accountExists(b.Account), "the account outlives its binding")
		f.expect(f.doctor)
		f.refuses(found)
		assert.False(f, f.accountExists(b.Account), "an old finding brought the account back")

		_, db, _ = again(full, plan.BindingParameters{Role: plan.ReadWrite})
		testdrive.Exec(f.T, db, "DELETE FROM t")
		assert.Error(f, testdrive.ErrorOf(f.T, db, "INSERT INTO t VALUES (1)"), "the account can add data")
	})
}

// An account whose unbind has begun is not created again. After the unbind has succeeded, nothing is left, whichever of
// the two came first.
func TestMissingAccountIsLeftToItsUnbind(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		for range 10 {
			b := f.bind(i, plan.ReadWrite)
			found := f.lose(b)
			var repair sync.WaitGroup
			repair.Go(func() {
				if _, err := f.doctor.Repair(f.Context(), found); err != nil {
					f.Logf("the unbind was faster: %v", err)
				}
			})
			err := f.Broker.Unbind(f.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: b.ID})
			repair.Wait()
			f.Must(err)
			require.False(f, f.accountExists(b.Account), "the account outlives its binding")
		}
		b := f.bind(i, plan.ReadWrite)
		found := f.lose(b)
		f.InTx(func(tx *store.Tx) error {
			tx.InsertTask(store.NewTask{InstanceID: i.ID, BindingID: b.ID, Kind: store.Unbind,
				PlanID: i.PlanID, Owner: "another broker", LeaseTTL: time.Hour})
			return nil
		})
		f.expect(f.doctor)
		f.refuses(found)
		assert.False(f, f.accountExists(b.Account), "the account was made again while it was being unbound")
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
			tx.Adopt(store.InstanceCopy{ID: "half", Database: engine.NewName("db_")}, store.SharedLocation(inprocess.SharedName))
			tx.SetInstanceState("half", store.Creating)
			return nil
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

		stray := engine.NewName("u_")
		f.exec("CREATE USER "+stray, "GRANT SELECT ON `"+i.Database+"`.* TO "+stray,
			"REVOKE INSERT ON `"+strings.ReplaceAll(i.Database, "_", `\_`)+"`.* FROM "+b.Account)
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

		stray := engine.NewName("u_")
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

package doctor_test

import (
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
)

// A view breaks if its definer is dropped.
func TestOrphanAccountOfALivingInstance(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		defines, plain := f.bind(i, plan.ReadWrite), f.bind(i, plan.ReadOnly)
		db := f.login(defines.Account, defines.Password, i.Database)
		_, err := db.ExecContext(f.Context(), "CREATE VIEW v AS SELECT 1 AS one")
		f.Must(err)
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
		if f.accountExists(plain.Account) || !f.accountExists(defines.Account) {
			f.Error("the wrong account was dropped")
		}
		if err := db.PingContext(f.Context()); err == nil {
			f.Error("the orphan can still log in")
		}
		f.exec("SELECT one FROM `" + i.Database + "`.v")
		f.expect(f.doctor)
		_, err = f.Broker.Deprovision(f.Context(), instances.DeprovisionRequest{InstanceID: i.ID, Plan: sharedPlan})
		f.Must(err)
		if f.accountExists(defines.Account) {
			f.Error("the retired account outlives its instance")
		}
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
			if finding.Problem != doctor.Unrecorded || finding.Kind != kind || finding.Repairable {
				f.Errorf("%+v", finding)
			}
			f.refuses(finding)
			finding.Problem, finding.Repairable = doctor.Orphan, true
			f.refuses(finding)
		}
		f.refuses(doctor.Finding{Problem: doctor.Orphan, Kind: store.DatabaseResource, Server: inprocess.SharedName, Name: i.Database,
			InstanceID: i.ID, Repairable: true})
		if !f.databaseExists(database) || !f.accountExists(account) || !f.databaseExists(i.Database) {
			f.Error("something was dropped")
		}
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
			var created string
			f.Must(f.Root.QueryRowContext(f.Context(), "SHOW CREATE USER `"+b.Account+"`@'%'").Scan(&created))
			if required := strings.Contains(created, "REQUIRE SSL"); required != want {
				f.Errorf("asked for %q: %s", asked, created)
			}
		}
	})
}

func TestMissingAccountIsMadeAgain(t *testing.T) {
	eachServer(t, func(f *fixture) {
		i := f.Provision(sharedPlan)
		b := f.bind(i, plan.ReadOnly)
		f.exec("CREATE TABLE `"+i.Database+"`.t (n INT)", "DROP USER `"+b.Account+"`")
		found := f.expect(f.doctor, "missing account "+b.Account)
		if found[0].InstanceID != i.ID || found[0].BindingID != b.ID || !found[0].Repairable {
			f.Errorf("%+v", found[0])
		}
		f.repair(found[0], "made again")
		f.expect(f.doctor)
		db := f.login(b.Account, b.Password, i.Database)
		var n, limit int
		f.Must(db.QueryRowContext(f.Context(), "SELECT COUNT(*), @@max_user_connections FROM t").Scan(&n, &limit))
		if limit != sharedPlan.MaxConnections {
			f.Errorf("the account may have %d connections", limit)
		}
		if _, err := db.ExecContext(f.Context(), "INSERT INTO t VALUES (1)"); err == nil {
			f.Error("the read-only account can write")
		}
		f.Must(f.Broker.Unbind(f.Context(), bindings.UnbindRequest{InstanceID: i.ID, BindingID: b.ID}))
		if f.accountExists(b.Account) {
			f.Error("the account outlives its binding")
		}
		f.expect(f.doctor)
		f.refuses(found[0])
		if f.accountExists(b.Account) {
			f.Error("an old finding brought the account back")
		}
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
		_, err := db.ExecContext(f.Context(), "DELETE FROM t")
		f.Must(err)
		if _, err := db.ExecContext(f.Context(), "INSERT INTO t VALUES (1)"); err == nil {
			f.Error("the account can add data")
		}
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
		if f.accountExists(b.Account) {
			f.Error("the account was made again while it was being unbound")
		}
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
			if f.accountExists(b.Account) {
				f.Fatal("the account outlives its binding")
			}
		}
	})
}

// An unreachable server has no missing objects, because nothing is known about it.
func TestServerThatCannotBeAsked(t *testing.T) {
	eachServer(t, func(f *fixture) {
		f.bind(f.Provision(sharedPlan), plan.ReadWrite)
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		f.Must(err)
		defer silent.Close()
		moved := f.Config.Shared[0]
		moved.Admin.Addr = silent.Addr().String()
		for name, d := range map[string]*doctor.Doctor{
			"not configured": f.doctorOf(f.OpenShared()), "not answering": f.doctorOf(f.OpenShared(moved)),
		} {
			found := f.expect(d, "unreachable shared server "+inprocess.SharedName)
			if found[0].Repairable || !strings.Contains(found[0].ToDo, "2 resources") {
				f.Errorf("%s: %+v", name, found[0])
			}
		}
	})
}

func TestAbandonedInstanceIsFound(t *testing.T) {
	eachServer(t, func(f *fixture) {
		f.InTx(func(tx *store.Tx) error {
			return tx.InsertInstance(store.Instance{ID: "half", Location: store.SharedLocation(inprocess.SharedName), Database: foreign("db_")})
		})
		if found := f.expect(f.doctor, "abandoned instance"); found[0].InstanceID != "half" || found[0].Repairable {
			f.Errorf("%+v", found[0])
		}
	})
}

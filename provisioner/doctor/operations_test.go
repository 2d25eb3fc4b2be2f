package doctor_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/bindings"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// prepare has a tenant prepare an XA transaction that holds a table of its instance, and leave.
func (f *fixture) prepare(i store.Instance, xid string) {
	b := f.bind(i, plan.Admin)
	db := b.login.Open(f.T)
	db.SetMaxOpenConns(1)
	testdrive.Exec(f.T, db, "CREATE TABLE t (n INT)", "XA START '"+xid+"'", "INSERT INTO t VALUES (1)",
		"XA END '"+xid+"'", "XA PREPARE '"+xid+"'")
	f.Must(db.Close())
}

// A tenant leaves a prepared transaction, which prevents the deletion of its instance. The doctor ends it if nothing
// else can be in the way, and no other tenant's.
func TestPreparedTransactionInADeletionsWay(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		all := f.OpenShared(f.Config.Shared...)
		impatient := doctor.New(doctor.Config{Store: f.Store, Plans: plans(), Fleet: f.FleetOf(all),
			BlockedAge: time.Nanosecond})
		leaving, staying := f.Provision(sharedPlan), f.Provision(sharedPlan)
		f.prepare(leaving, "theirs")
		f.prepare(staying, "others")
		t.Cleanup(func() { // lest the databases cannot be dropped
			for _, xid := range []string{"theirs", "others"} {
				_, _ = f.Root.ExecContext(context.Background(), "XA ROLLBACK '"+xid+"'")
			}
		})
		require.Error(t, f.delete(leaving), "it was deleted")
		blocked := func(d *doctor.Doctor) *doctor.Finding {
			found := f.find(d)
			if n := slices.IndexFunc(found, func(f doctor.Finding) bool { return f.Problem == doctor.Blocked }); n >= 0 {
				return &found[n]
			}
			return nil
		}
		assert.Nil(t, blocked(f.doctor), "after less than an hour")
		found := blocked(impatient)
		require.NotNil(t, found, "nothing is blocked")
		assert.True(t, !found.Repairable && found.Name == leaving.Database && strings.Contains(found.ToDo, "XA ROLLBACK"),
			"with another tenant's: %+v", found)
		f.exec("XA ROLLBACK 'others'")
		// InnoDB fills innodb_trx again only after 100 ms in which nobody has read it.
		const innodbTrxIdle = 200 * time.Millisecond
		testdrive.Eventually(t, "it is the only one", func() bool {
			time.Sleep(innodbTrxIdle)
			found = blocked(impatient)
			return found != nil && found.Repairable
		})
		// Another's that came since makes it uncertain again.
		f.prepare(f.Provision(sharedPlan), "others")
		done, err := impatient.Repair(t.Context(), *found)
		assert.ErrorIs(t, err, mysqladmin.ErrNotSure, "with another tenant's, %q", done)
		f.exec("XA ROLLBACK 'others'") // it was not ended without need
		testdrive.Eventually(t, "it is the only one again", func() bool {
			time.Sleep(innodbTrxIdle)
			return blocked(impatient).Repairable
		})
		done, err = impatient.Repair(t.Context(), *found)
		assert.True(t, err == nil && strings.Contains(done, "was rolled back"), "%q: %v", done, err)
		assert.Error(t, testdrive.ErrorOf(t, f.Root, "XA ROLLBACK 'theirs'"), "it is still prepared")
		assert.False(t, f.databaseExists(leaving.Database), "the database is still there")
		f.Must(f.delete(leaving))
	})
}

// Examinations during operations find nothing, because nothing is wrong. No other test uses the servers.
func TestOperationsUnderWayAreNoFindings(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		const developers, examinations = 4, 8
		var working sync.WaitGroup
		var enough atomic.Bool
		var rounds atomic.Int32
		defer working.Wait()
		defer enough.Store(true)
		for range developers {
			working.Go(func() {
				for !enough.Load() && assert.NoError(f, f.comeAndGo()) {
					rounds.Add(1)
				}
			})
		}
		examine := func() {
			r, err := f.doctor.Examine(f.Context())
			f.Must(err)
			assert.Empty(f, r.Findings)
		}
		for done := 0; done < examinations || rounds.Load() < developers && !f.Failed(); done++ {
			examine()
		}
		enough.Store(true)
		working.Wait()
		examine()
		f.Logf("at least %d examinations during %d operations", examinations, 5*rounds.Load())
	})
}

// comeAndGo provisions an instance, creates two bindings, deletes one, and deletes the instance with the other.
func (f *fixture) comeAndGo() error {
	ctx, id := f.Context(), uuid.NewString()
	if _, err := f.Broker.Provision(ctx, engine.ProvisionRequest{InstanceID: id, Plan: sharedPlan}); err != nil {
		return err
	}
	for _, binding := range []string{"first", "second"} {
		_, _, err := f.Broker.Bind(ctx, bindings.BindRequest{InstanceID: id, BindingID: binding,
			ServiceID: sharedPlan.ServiceID, Parameters: plan.BindingParameters{Role: plan.ReadWrite}})
		if err != nil {
			return err
		}
	}
	if err := f.Broker.Unbind(ctx, bindings.UnbindRequest{InstanceID: id, BindingID: "first"}); err != nil {
		return err
	}
	return f.delete(store.Instance{ID: id})
}

// Records of deleted objects are kept until examinations have found nothing of them for long enough.
func TestForget(t *testing.T) {
	eachServer(t, func(f *fixture) {
		lost := f.Provision(sharedPlan)
		f.forgetInstance(lost)
		f.Must(f.delete(f.Provision(sharedPlan)))
		f.Provision(sharedPlan) // lives on
		hasty := doctor.New(doctor.Config{Store: f.Store, Plans: plans(), KeepRecord: time.Nanosecond,
			Fleet: f.FleetOf(f.OpenShared(f.Config.Shared...))})
		forget := func(d *doctor.Doctor, want int64) {
			r, err := d.ExamineAndForget(f.Context())
			f.Must(err)
			assert.Equal(f, want, r.Forgotten)
		}
		forget(f.doctor, 0)
		forget(f.doctor, 0)
		forget(hasty, 1) // what another process has seen counts
		found := f.expect(f.doctor, "orphan database "+lost.Database)
		f.repair(found[0], "dropped")
		forget(hasty, 0)
		forget(hasty, 1)
		forget(hasty, 0)
	})
}

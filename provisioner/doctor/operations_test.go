package doctor_test

import (
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
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A tenant leaves a prepared transaction, which prevents the deletion of its instance until an operator ends it.
func TestPreparedTransactionInADeletionsWay(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		f := newFixture(t, testdrive.Private(t, s.Flavour))
		all := f.OpenShared(f.Config.Shared...)
		impatient := doctor.New(doctor.Config{Store: f.Store, Plans: plans(), Fleet: f.FleetOf(all),
			BlockedAge: time.Nanosecond})
		i := f.Provision(sharedPlan)
		b := f.bind(i, plan.Admin)
		db := f.login(b.Account, b.Password, i.Database)
		db.SetMaxOpenConns(1)
		testdrive.Exec(t, db, "CREATE TABLE t (n INT)", "XA START 'theirs'", "INSERT INTO t VALUES (1)", "XA END 'theirs'",
			"XA PREPARE 'theirs'")
		f.Must(db.Close())
		require.Error(t, f.delete(i), "it was deleted")
		blocked := func(d *doctor.Doctor) []doctor.Finding {
			return slices.DeleteFunc(f.find(d), func(f doctor.Finding) bool { return f.Problem != doctor.Blocked })
		}
		assert.Empty(t, blocked(f.doctor), "after less than an hour")
		found := blocked(impatient)
		assert.True(t, len(found) == 1 && found[0].Name == i.Database, "%+v", found)
		_, rollback, _ := strings.Cut(found[0].ToDo, "XA ROLLBACK: ")
		f.exec("XA ROLLBACK " + rollback)
		f.Must(f.delete(i))
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
				for !enough.Load() {
					if err := f.comeAndGo(); err != nil {
						f.Error(err)
						return
					}
					rounds.Add(1)
				}
			})
		}
		examine := func() {
			r, err := f.doctor.Examine(f.Context())
			f.Must(err)
			for _, finding := range r.Findings {
				f.Errorf("%+v", finding)
			}
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

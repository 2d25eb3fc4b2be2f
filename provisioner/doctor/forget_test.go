package doctor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/instances"
)

// Records of deleted objects are kept until examinations have found nothing of them for long enough.
func TestForget(t *testing.T) {
	eachServer(t, func(f *fixture) {
		lost := f.Provision(sharedPlan)
		f.forgetInstance(lost)
		ended := f.Provision(sharedPlan)
		_, err := f.Broker.Deprovision(f.Context(), instances.DeprovisionRequest{InstanceID: ended.ID, Plan: sharedPlan})
		f.Must(err)
		f.Provision(sharedPlan) // lives on
		hasty := doctor.New(doctor.Config{Store: f.Store, Plans: plans(), KeepRecord: time.Nanosecond,
			Fleet: f.FleetOf(f.OpenShared(f.Config.Shared...))})
		forget := func(d *doctor.Doctor, want int64) {
			f.Helper()
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

package doctor_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"mysql-broker/provisioner"
)

// Records of what has ended are kept until it is seen to be gone, and for an hour.
func TestForget(t *testing.T) {
	eachServer(t, func(f *fixture) {
		lost := f.provision(sharedPlan)
		f.forgetInstance(lost)
		conn, err := pgx.Connect(f.Context(), f.config.PostgresURL)
		f.must(err)
		defer conn.Close(f.Context())
		_, err = conn.Exec(f.Context(), "UPDATE resource SET recorded_at = now() - $1::interval", time.Hour+time.Minute)
		f.must(err)
		young := f.provision(sharedPlan)
		_, err = f.broker.Deprovision(f.Context(), provisioner.DeprovisionRequest{InstanceID: young.ID, Plan: sharedPlan})
		f.must(err)
		forget := func(want int64) {
			f.Helper()
			r, err := f.doctor.Examine(f.Context())
			f.must(err)
			if n, err := f.doctor.Forget(f.Context(), r); err != nil || n != want {
				f.Errorf("forgot %d instead of %d, %v", n, want, err)
			}
		}
		forget(0)
		found := f.expect(f.doctor, "orphan database "+lost.Database)
		f.repair(found[0], "dropped")
		forget(1)
		forget(0)
	})
}

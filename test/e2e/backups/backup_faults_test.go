package backups

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultBackup takes the object store away from backups and restores. What kills of brokers do, package stage tests.
func TestFaultBackup(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	service := s3.Start(t)
	proxy := testdrive.NewProxy(t, service.Address)
	d, source, c, _ := testdrive.Interrupted(t, s.Flavour, func(env map[string]string) {
		service.ConfigureAt(env, proxy.Addr())
	})
	p, ts, faults := d.Platform, d.Tasks, d.Faults
	expectUntouched := func() {
		t.Helper()
		if objects := service.Objects(t); len(objects) != 0 {
			t.Errorf("the bucket has %q", objects)
		}
		if all := testdrive.AccountsOf(t, p, c); len(all) != 1 {
			t.Errorf("the source has the accounts %q", all)
		}
	}

	// The bucket is gone.
	away := service.Dir + "-away"
	if err := os.Rename(service.Dir, away); err != nil {
		t.Fatal(err)
	}
	state, shown := source.AwaitOperation(t, source.ID, source.BackUp(t).Expect(t, http.StatusAccepted).String("operation"))
	if state != "failed" || !strings.Contains(shown[len(shown)-1], "object store") {
		t.Errorf("a backup without a bucket %s: %q", state, shown)
	}
	if err := os.Rename(away, service.Dir); err != nil {
		t.Fatal(err)
	}
	expectUntouched()
	testdrive.RunScheduled(t, ts, "purge-backups") // the record of the backup that could not be deleted

	// The service restarts.
	reached, release := testdrive.HoldAt(t, faults, "backup: written")
	operation := source.BackUp(t).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, reached, "rows are written")
	if again := source.BackUp(t).Expect(t, http.StatusAccepted).String("operation"); again != operation {
		t.Errorf("a repeated request began %s beside %s", again, operation)
	}
	b, _ := source.Bound(t, nil) // meanwhile
	b.Unbind(t)
	service.Stop()
	proxy.Cut()
	release()
	service.Start(t)
	source.Await(t, operation)
	if objects := service.Objects(t); len(objects) != 3 {
		t.Errorf("the bucket has %q", objects)
	}

	// The connection of a restore is cut off.
	i := p.OwnInstance(t, "shared-small")
	reached, release = testdrive.HoldAt(t, faults, "provision: restored")
	operation = i.Restored(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, reached, "rows are restored")
	proxy.Cut()
	release()
	i.Await(t, operation)
	testdrive.ExpectClone(t, i)
	i.Remove(t)
	testdrive.ExpectTenants(t, p.Admin(t), 1, 1)
}

package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultBackup interrupts backups and restores in different ways.
func TestFaultBackup(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	service := s3.Start(t)
	proxy := testdrive.NewProxy(t, service.Address)
	d, source, c, restart := interrupted(t, s.Flavour, func(env map[string]string) {
		service.ConfigureAt(env, proxy.Addr())
	})
	p, ts, faults := d.Platform, d.tasks, d.faults
	const written = "backup: written"

	// An operator cancels it.
	reached, release := testdrive.HoldAt(t, faults, written)
	operation := source.BackUp(t).Expect(t, http.StatusAccepted).String("operation")
	testdrive.Receive(t, reached, "rows are written")
	if again := source.BackUp(t).Expect(t, http.StatusAccepted).String("operation"); again != operation {
		t.Errorf("a repeated request began %s beside %s", again, operation)
	}
	b, _ := source.Bound(t, nil) // meanwhile
	b.Unbind(t)
	d.Run(t, 0, "tasks", "cancel", operation)
	release()
	if state, says := d.ended(t, operation); state != "failed" || !strings.HasPrefix(says, byOperator) {
		t.Errorf("the cancelled backup %s: %s", state, says)
	}
	expectUntouched := func() {
		t.Helper()
		if objects := service.Objects(t); len(objects) != 0 {
			t.Errorf("the bucket has %q", objects)
		}
		if all := accountsOf(t, p, c); len(all) != 1 {
			t.Errorf("the source has the accounts %q", all)
		}
	}
	expectUntouched()

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
	runScheduled(t, ts, "purge-backups") // the record of the backup that could not be deleted

	// The broker is killed, and the service restarts meanwhile.
	faults.Decide(func(_ int, point string) testdrive.Word {
		if point == written {
			return testdrive.Die
		}
		return testdrive.GoOn
	})
	operation = source.BackUp(t).Expect(t, http.StatusAccepted).String("operation")
	p.Wait(t)
	service.Stop()
	reached, release = testdrive.HoldAt(t, faults, written)
	p = restart()
	source.Platform = p
	service.Start(t)
	testdrive.Receive(t, reached, "rows are written again")
	proxy.Cut()
	release()
	source.Await(t, operation)
	if objects := service.Objects(t); len(objects) != 3 {
		t.Errorf("the bucket has %q", objects)
	}

	// A restore whose connection is cut off, and whose broker is killed.
	faults.Decide(func(_ int, point string) testdrive.Word {
		if point == "provision: restored" {
			return testdrive.Die
		}
		return testdrive.GoOn
	})
	i := p.OwnInstance(t, "shared-small")
	operation = i.Restored(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation")
	p.Wait(t)
	faults.Decide(func(int, string) testdrive.Word { return testdrive.GoOn })
	proxy.Cut()
	p = restart()
	i.Platform, source.Platform = p, p
	i.Await(t, operation)
	expectClone(t, i)
	i.Remove(t)
	testdrive.ExpectTenants(t, p.Admin(t), 1, 1)
}

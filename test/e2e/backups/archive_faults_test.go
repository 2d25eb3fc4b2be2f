package backups

import (
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultTwoArchivers pauses the broker that archives, after it has written a segment and before it has recorded that.
// Another broker goes on, and then both are there. The archive has no gap and nothing twice.
func TestFaultTwoArchivers(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	env := archiveEnvironment(t, s)
	env["BACKUP_STORE"] = "file://" + t.TempDir()
	faults := testdrive.NewFaults(t, env)
	first := testdrive.StartPlatform(t, s, env)
	ts := testdrive.OpenTasks(t, env)
	i, c := archivedInstance(t, first)
	db := c.Open(t)

	g := testdrive.NewGate(t, "archive: written")
	faults.Decide(func(pid int, at string) testdrive.Word {
		if pid == first.PID() {
			g.Pass(at)
		}
		return testdrive.GoOn
	})
	testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES ('one')")
	testdrive.Receive(t, g.Reached, "a segment is written")
	first.Pause(t)
	t.Cleanup(func() { first.Signal(t, syscall.SIGCONT) })
	second := testdrive.StartPlatform(t, s, env)
	i.Platform = second
	testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES ('two')")
	moments := []moment{momentOf(t, c)}
	archived(t, ts, i, moments[0].at)

	g.Release()
	first.Signal(t, syscall.SIGCONT)
	first.AwaitLog(t, `"msg":"archiving`) // that failed
	testdrive.Exec(t, db, "UPDATE large SET filling = 'three'", "INSERT INTO large (filling) VALUES ('four')")
	moments = append(moments, momentOf(t, c))
	archived(t, ts, i, moments[1].at)
	var archives int
	ts.Scan(t, &archives, "SELECT count(*) FROM binary_log")
	if archives != 1 {
		t.Errorf("there are %d archives", archives)
	}
	for _, m := range moments {
		expectAt(t, second, i.ID, m)
	}
}

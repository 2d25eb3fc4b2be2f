package slow

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestNoRoomForTheData moves, copies and restores an instance to servers whose disk then gets full. That is said in a sentence,
// within seconds; the source stays as it was, and nothing is left over.
func TestNoRoomForTheData(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		private := testdrive.Private(t, s.Flavour)
		env := testdrive.Environment(t, private)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p, tasks := testdrive.StartPlatformBy(t, disk.Start, private, env), testdrive.OpenTasks(t, env)
		i := p.MakeOwn(t, "shared-small")
		_, c := i.Bound(t, nil)
		testdrive.MakeObjectsAs(t, c)
		db := c.Open(t)
		testdrive.Exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
		for range 30 {
			testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT(RANDOM_BYTES(1000), 1000))")
		}

		expectFull := func(i testdrive.Instance, operation, says string) {
			t.Helper()
			i.AwaitFailure(t, operation, "disk", says)
			disk.Free(t)
			testdrive.Exec(t, db, "CALL add_item()")
			testdrive.ExpectTenants(t, p.Admin(t), 1, 1)
			expectEmptyDisk(t, disk)
		}

		reached, release := testdrive.HoldAt(t, faults, "update: launch: done")
		operation := i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
		testdrive.Receive(t, reached, "the server runs")
		disk.Fill(t, 8)
		release()
		expectFull(i, operation, "stays where it was")

		backup := i.BackedUp(t)
		for from, room := range map[string]int64{"clone_from": 8, "restore_from": 0} { // MiB, not even for the database
			reached, release = testdrive.HoldAt(t, faults, "provision: launch: done")
			made := p.OwnInstance(t, "dedicated-small")
			operation = made.Provision(t, testdrive.Async, body{"context": testdrive.CloudFoundry, "parameters": body{from: i.ID}}).Operation(t)
			testdrive.Receive(t, reached, "the server runs")
			disk.Fill(t, room)
			release()
			expectFull(made, operation, "create it again")
			made.Remove(t)
		}

		// There is room again. Users read how much is copied.
		reached, release = testdrive.HoldAt(t, faults, "update: copy: done")
		operation = i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t)
		testdrive.Receive(t, reached, "rows are copied")
		progress := regexp.MustCompile(`^Copying the data: \d+ of \d+ MiB \(\d+ %\)`)
		shown := i.Poll(t, "?operation="+operation).String("description")
		assert.True(t, progress.MatchString(shown), "the move shows %q", shown)
		release()
		i.Await(t, operation)

		// A restore in place, before and after nobody may write: the data is as before.
		_, c = i.Bound(t, nil)
		testdrive.Exec(t, c.Open(t), "CALL add_item()")
		was := testdrive.Contents(t, c)
		for point, room := range map[string]int64{"restore: check: done": 8, "restore: freeze: done": 0} {
			reached, release = testdrive.HoldAt(t, faults, point)
			operation = i.RestoreBackup(t, backup, "db").Operation(t)
			testdrive.Receive(t, reached, point)
			disk.Fill(t, room)
			release()
			tasks.Await(t, operation, "is given up", "state = 'failed' OR phase = 'cleanup'")
			disk.Free(t)
			tasks.Await(t, operation, "has failed", "state = 'failed'")
			testdrive.ExpectContents(t, "after a full disk at "+point, c, was)
			testdrive.Exec(t, c.Open(t), "CALL add_item()", "DELETE FROM items ORDER BY id DESC LIMIT 1")
		}
	})
}

package backups

import (
	"strings"
	"testing"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A restore of a lost database that fails after it has restored data leaves none, so that it can be repeated.
func TestFaultRepeatRestoreOfALostDatabase(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		d, i, c, _ := testdrive.Interrupted(t, s.Flavour, s3.Start(t).Configure)
		was, id := testdrive.Contents(t, c), i.BackedUp(t)
		testdrive.Exec(t, d.AdminDB, "DROP DATABASE "+c.Database)
		restore := func() (operation string) {
			operation, _, _ = strings.Cut(d.Run(t, 0, "backups", "restore", "--lost", id, i.ID).Stdout, " ")
			return operation
		}
		reached, release := testdrive.HoldAt(t, d.Faults, "restore: end owner: begins")
		operation := restore()
		testdrive.Receive(t, reached, "the data are restored")
		d.Run(t, 0, "tasks", "cancel", operation)
		release()
		if state, says := d.Ended(t, operation); state != "failed" ||
			!strings.Contains(says, "What was restored is dropped") || strings.Contains(says, "earlier data") {
			t.Errorf("a restore that was cancelled %s: %s", state, says)
		}
		if state, says := d.Ended(t, restore()); state != "succeeded" {
			t.Fatalf("the restore that was repeated %s: %s", state, says)
		}
		testdrive.ExpectContents(t, i.ID, c, was)
	})
}

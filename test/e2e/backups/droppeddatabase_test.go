package backups

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A tenant drops the database. A bind says so, and a restore in place repairs it, with the bindings that there are. There
// is nothing to back up before, and after a failure the database is missing as before.
func TestDroppedDatabase(t *testing.T) {
	t.Parallel()
	servers.AnyMySQL(t, func(t *testing.T, s servers.MySQL) {
		d, i, c, _ := testdrive.Interrupted(t, s.Flavour, s3.Start(t).Configure)
		for _, table := range []string{"time_zone", "time_zone_name", "time_zone_transition", "time_zone_transition_type"} {
			testdrive.Exec(t, d.AdminDB, "DELETE FROM mysql."+table)
		}
		if out := d.Run(t, 0, "doctor").Stdout; !strings.Contains(out, "limited") || !strings.Contains(out, "time zones") {
			t.Errorf("a shared server has no time zones: %s", out)
		}
		was, id := testdrive.Contents(t, c), i.BackedUp(t)
		testdrive.Exec(t, c.Open(t), "DROP DATABASE "+c.Database)
		b := i.NewBinding()
		if r := b.Bind(t, nil); r.Status < 400 || !strings.Contains(r.String("description"), "somebody has dropped it") {
			t.Errorf("a bind without a database: %d, %q", r.Status, r.String("description"))
		}

		reached, release := testdrive.HoldAt(t, d.Faults, "restore: end owner: begins")
		operation := i.RestoreBackup(t, id, "db").Expect(t, http.StatusAccepted).String("operation")
		testdrive.Receive(t, reached, "the data are restored")
		d.Run(t, 0, "tasks", "cancel", operation)
		release()
		if state, says := d.Ended(t, operation); state != "failed" {
			t.Errorf("a restore that was cancelled %s: %s", state, says)
		}
		if r := b.Bind(t, nil); r.Status < 400 {
			t.Errorf("the database is not missing as before: %d", r.Status)
		}

		shown := i.Await(t, i.RestoreBackup(t, id, "db").Expect(t, http.StatusAccepted).String("operation"))
		if last := shown[len(shown)-1]; strings.Contains(last, "there before") {
			t.Errorf("the restore says %q", last)
		}
		testdrive.ExpectContents(t, i.ID, c, was)
		if backups := strings.Count(d.Run(t, 0, "backups", i.ID).Stdout, "b_"); backups != 1 {
			t.Errorf("there are %d backups", backups)
		}
		i.Bound(t, nil)
	})
}

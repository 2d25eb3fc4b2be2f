package backups

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A database is gone: a tenant has dropped it, or its server has lost it. A restore in place brings it back, for the
// bindings that there are. Before it there is nothing to back up, and one that fails after it has restored data leaves
// none, so that it can be repeated.
func TestFaultRestoreOfALostDatabase(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		d, i, c, _ := testdrive.Interrupted(t, s.Flavour, s3.Start(t).Configure)
		was, id := testdrive.Contents(t, c), i.BackedUp(t)
		for _, loss := range []struct {
			name, advice string
			restore      func() (operation string)
		}{
			{"dropped by a tenant", "gets its earlier data back", func() string {
				return i.RestoreBackup(t, id, "db").Operation(t)
			}},
			{"lost with its server", "What was restored is dropped", func() string {
				operation, _, _ := strings.Cut(d.Run(t, 0, "backups", "restore", "--yes", "--lost", id, i.ID).Stdout, " ")
				return operation
			}},
		} {
			testdrive.Exec(t, d.AdminDB, "DROP DATABASE "+c.Database)
			expectDropped := func(when string) {
				t.Helper()
				r := i.NewBinding().Bind(t, nil)
				assert.False(t, r.Status < 400 || !strings.Contains(r.String("description"), "somebody has dropped it"),
					"%s %s, a bind: %d, %q", loss.name, when, r.Status, r.String("description"))
			}
			expectDropped("at first")
			reached, release := testdrive.HoldAt(t, d.Faults, "restore: end owner: begins")
			operation := loss.restore()
			testdrive.Receive(t, reached, "the data is restored")
			d.Run(t, 0, "tasks", "cancel", operation)
			release()
			d.ExpectEnd(t, operation, "failed", loss.advice)
			expectDropped("after a restore that was cancelled")
			state, says := d.Ended(t, loss.restore())
			require.True(t, state == "succeeded" && !strings.Contains(says, "there before"),
				"%s, the restore %s: %s", loss.name, state, says)
			testdrive.ExpectContents(t, i.ID, c, was)
		}
		backups := strings.Count(d.Run(t, 0, "backups", i.ID).Stdout, "b_")
		assert.Equal(t, 1, backups, "there are %d backups", backups)
		i.Bound(t, nil)
	})
}

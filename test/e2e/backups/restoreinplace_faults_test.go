package backups

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultRestoreInPlaceThatEnds has the object store hang while nobody may write: it accepts connections, and does not
// answer. Applications can write again before it answers. Then it drops what was restored before it takes the place of the
// data.
func TestFaultRestoreInPlaceThatEnds(t *testing.T) {
	t.Parallel()
	service := s3.Start(t)
	r := newSpoiltInstance(t, servers.Any(t).Flavour, service.Configure)
	reached, release := testdrive.HoldAt(t, r.Faults, "restore: write: begins")
	operation := r.begin(t)
	testdrive.Receive(t, reached, "nobody may write")
	thaw := service.Freeze(t)
	release()
	reached, release = testdrive.HoldAt(t, r.Faults, "restore: drop beside: begins")
	testdrive.Receive(t, reached, "the restore is given up")
	r.expectSpoilt(t, "after a restore beside an object store that hangs")
	thaw()
	release()
	r.ExpectEnd(t, operation, "failed", "The object store for backups failed")
	r.expectSpoilt(t, "after a restore that a hanging object store has ended")

	reached, release = testdrive.HoldAt(t, r.Faults, "restore: switch: begins")
	operation = r.begin(t)
	testdrive.Receive(t, reached, "the backup is restored")
	filled := testdrive.Read[string](t, r.AdminDB, "SELECT schema_name FROM information_schema.schemata "+
		`WHERE schema_name LIKE 'db\_%' AND schema_name NOT IN ('db_broker_marks', ?)`, r.c.Database)
	testdrive.Exec(t, r.AdminDB, "DROP DATABASE `"+filled+"`")
	release()
	r.ExpectEnd(t, operation, "failed", "stays as it was")
	r.expectSpoilt(t, "after what was restored was dropped")
	r.remove(t)
}

// TestFaultRestoreInPlaceLostInTheMiddle loses the broker and PostgreSQL in the middle of the switch of a restore, of which
// the backup of PostgreSQL knows nothing. Applications can only read until the backup that recover names is restored.
func TestFaultRestoreInPlaceLostInTheMiddle(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		var env map[string]string
		store := t.TempDir()
		r := newSpoiltInstance(t, s.Flavour, func(its map[string]string) {
			env = its
			env["BACKUP_STORE"] = "file://" + store
		})
		dump := testdrive.DumpPostgres(t, env["DATABASE_URL"])
		reached, _ := testdrive.HoldAt(t, r.Faults, "after: RENAME TABLE")
		r.begin(t)
		testdrive.Receive(t, reached, "the tables are those of the backup")
		r.Kill(t)
		testdrive.RestorePostgres(t, env["DATABASE_URL"], dump)
		r.Faults.GoOn()
		r.Platform = r.restart()
		r.i.Platform = r.Platform

		shown := testdrive.RunRecover(t, env, 0)
		named := regexp.MustCompile(`mysql-broker backups restore (b_\w+) ` + r.i.ID).FindStringSubmatch(shown)
		require.True(t, strings.Contains(shown, "freeze") && named != nil, "recover does not say what to do:\n%s", shown)
		testdrive.RunRecover(t, env, 0, "--apply")
		testdrive.ExpectRefusal(t, r.i.NewBinding().Bind(t, nil), http.StatusBadRequest)
		_, err := r.c.Open(t).Exec("INSERT INTO items (name) VALUES ('late')")
		assert.EqualValues(t, 1142, testdrive.ErrorNumber(err), "a write to a mixture: %v", err)
		r.Run(t, 0, "backups", "import")
		operation, _, _ := strings.Cut(r.Run(t, 0, "backups", "restore", "--yes", named[1], r.i.ID).Stdout, " ")
		r.ExpectEnd(t, operation, "succeeded")
		r.expectSpoilt(t, "after the earlier data was restored")
		expectHealthy(t, env)
		again := testdrive.RunRecover(t, env, 0)
		assert.False(t, strings.Contains(again, "freeze"), "recover freezes what was restored:\n%s", again)
	})
}

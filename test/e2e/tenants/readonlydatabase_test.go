package tenants

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// On MySQL, a tenant can make his database read-only. A restore in place makes it writable, one that fails leaves it as
// it was, a copy is writable, and a move keeps it read-only.
func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		faults := testdrive.NewFaults(t, env)
		p := testdrive.StartPlatform(t, s, env)
		i := p.Provisioned(t, "shared-small", body{"context": testdrive.CloudFoundry})
		_, c := i.Bound(t, nil)
		db := c.Open(t)
		testdrive.Exec(t, db, "CREATE TABLE t (id INT PRIMARY KEY)", "INSERT INTO t VALUES (1)")
		setReadOnly := func() {
			_, err := db.Exec("ALTER DATABASE `" + c.Database + "` READ ONLY = 1")
			require.Equal(t, s.Flavour == "mariadb", err != nil, "ALTER DATABASE READ ONLY: %v", err)
		}
		expectWritable := func(what string, c testdrive.Credentials, want bool) {
			_, err := c.Open(t).Exec("INSERT INTO t SELECT MAX(id) + 1 FROM t")
			assert.Equal(t, want || s.Flavour == "mariadb", err == nil, "%s: %v", what, err)
		}
		setReadOnly()
		backup := i.BackedUp(t)

		reached, release := testdrive.HoldAt(t, faults, "restore: restored")
		operation := i.RestoreBackup(t, backup, "db").Operation(t)
		testdrive.Receive(t, reached, "rows are restored")
		p.Operator(env).Run(t, 0, "tasks", "cancel", operation)
		release()
		i.AwaitFailure(t, operation, "earlier data back")
		expectWritable("after a restore that failed", c, false)
		i.Await(t, i.RestoreBackup(t, backup, "db").Operation(t))
		expectWritable("after a restore", c, true)

		setReadOnly()
		clone := p.NewInstance(t, "shared-small")
		clone.Await(t, clone.Clone(t, i.ID, nil).Operation(t))
		_, of := clone.Bound(t, nil)
		expectWritable("a copy", of, true)
		i.Await(t, i.UpdatePlan(t, testdrive.Async, "dedicated-small").Operation(t))
		_, moved := i.Bound(t, nil)
		expectWritable("where the data was moved", moved, false)
	})
}

package operators

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestServerUpgrade offers a later version to a broker with an instance, and upgrades that as `cf upgrade-service` does.
func TestServerUpgrade(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		p := testdrive.StartPlatform(t, s, env)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		require.NoError(t, err)
		i := p.OwnInstance(t, "dedicated-small")
		i.Await(t, i.Provision(t, testdrive.Async, body{"maintenance_info": body{"version": present.Version}}).Operation(t))
		c := testdrive.MakeObjects(t, i)
		i.ExpectVersion(t, p, env, present.Version)
		p.Kill(t)

		next := servers.Later(t, present)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = testdrive.StartPlatform(t, s, env)
		i.Platform = p
		i.ExpectVersion(t, p, env, present.Version) // nothing happens by itself
		testdrive.ExpectError(t, i.Upgrade(t, present.Version), "MaintenanceInfoConflict")
		assert.Contains(t, p.Operator(env).Run(t, 0, "servers", "--dedicated").Stdout, next.Version,
			"the list of servers shows no upgrade")
		stop := writeRows(t, c)
		operation := i.Upgrade(t, next.Version).Operation(t)
		if again := i.Upgrade(t, next.Version).Expect(t, http.StatusAccepted); again.String("operation") != operation {
			t.Errorf("the repeated request started %s, the first %s", again.String("operation"), operation)
		}
		shown := i.Await(t, operation)
		text := strings.Join(shown, "\n")
		assert.False(t, !strings.Contains(text, "Writing the backup") && !strings.Contains(text, "Upgrading"),
			"the platform reads %q", shown)
		written := stop()
		n := testdrive.Read[int](t, c.Open(t), "SELECT COUNT(*) FROM written")
		assert.True(t, n >= written, "%d rows are left of %d", n, written)
		testdrive.ExpectClone(t, i)
		i.ExpectVersion(t, p, env, next.Version)
		var backups []struct{ Reason, State string }
		p.Operator(env).Read(t, &backups, "backups")
		assert.True(t, len(backups) == 1 && backups[0].Reason == "upgrade" && backups[0].State == "complete",
			"backups %+v", backups)
		testdrive.ExpectEmpty(t, i.Upgrade(t, next.Version), http.StatusOK)
		done := p.Operator(env).Audit(t, "--instance", i.ID, "--action", "update")
		assert.True(t, len(done) == 1 && done[0].Object == "upgrade to "+next.Version, "the audit has %+v", done)

		p.Kill(t)
		env["LAUNCHER_MYSQLD"] = next.Path + "," + present.Path
		env["CATALOG"] = testdrive.CatalogWith(t, env["CATALOG"], "dedicated-large", fmt.Sprintf("version: %q", present.Version))
		p = testdrive.StartPlatform(t, s, env)
		i.Platform = p
		testdrive.ExpectError(t, i.UpdatePlan(t, testdrive.Async, "dedicated-large"), "PlanChangeNotSupported", "cannot go back")
		// Other tests have databases on the shared server.
		out := testdrive.Run(t, env, "doctor").Stdout
		assert.False(t, strings.Contains(out, i.ID) || strings.Contains(out, "   dedicated "), "the doctor says: %s", out)
	})
}

// writeRows inserts rows until stop, which returns how many servers have acknowledged.
func writeRows(t *testing.T, c testdrive.Credentials) (stop func() int) {
	t.Helper()
	db, ending, ended := c.Open(t), make(chan struct{}), make(chan int)
	testdrive.Exec(t, db, "CREATE TABLE written (id INT AUTO_INCREMENT PRIMARY KEY)")
	go func() {
		for rows := 0; ; {
			if _, err := db.ExecContext(t.Context(), "INSERT INTO written VALUES ()"); err == nil {
				rows++
			}
			select {
			case <-ending:
				ended <- rows
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	return func() int {
		close(ending)
		return <-ended
	}
}

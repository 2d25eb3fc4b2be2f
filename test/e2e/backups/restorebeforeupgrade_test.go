package backups

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestFaultRestoreToBeforeUpgrade restores to times before and after an upgrade. The backup and the binary logs of the older
// version go to a server of the newer one.
func TestFaultRestoreToBeforeUpgrade(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := archiveEnvironment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		p := testdrive.StartPlatform(t, s, env)
		ts := testdrive.OpenTasks(t, env)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		if err != nil {
			t.Fatal(err)
		}
		source := p.OwnInstance(t, "dedicated-small")
		source.Await(t, source.Provision(t, testdrive.Async, body{"context": testdrive.CloudFoundry}).Expect(t,
			http.StatusAccepted).String("operation"))
		c := testdrive.MakeObjects(t, source)
		source.Await(t, source.BackUp(t).Expect(t, http.StatusAccepted).String("operation"))
		var moments []moment
		change := func(statements ...string) {
			t.Helper()
			testdrive.Exec(t, c.Open(t), statements...)
			at := time.Now().Add(time.Second).Truncate(time.Second)
			testdrive.Eventually(t, limits.Stuck, "the second has passed", func() bool {
				return time.Now().After(at.Add(time.Second))
			})
			moments = append(moments, moment{at, dataOf(t, c)})
			archived(t, ts, source, at)
		}
		change("INSERT INTO items (name) VALUES ('before')", "CREATE TABLE copied AS SELECT * FROM items")
		p.Kill(t)
		next := servers.Later(t, present)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = testdrive.StartPlatform(t, s, env)
		source.Platform = p
		source.Await(t, source.Upgrade(t, next.Version).Expect(t, http.StatusAccepted).String("operation"))
		change("INSERT INTO items (name) VALUES ('after')", "DROP TABLE copied")
		for n, m := range moments {
			i := p.OwnInstance(t, "dedicated-small")
			i.Await(t, i.RestoredTo(t, source.ID, m.at).Expect(t, http.StatusAccepted).String("operation"))
			_, restored := i.Bound(t, nil)
			if got := dataOf(t, restored); !slices.Equal(got, m.data) {
				t.Errorf("moment %d:\n%s\ninstead of\n%s", n, strings.Join(got, "\n"), strings.Join(m.data, "\n"))
			}
			if got := testdrive.Read[string](t, restored.Open(t), "SELECT VERSION()"); !strings.HasPrefix(got, next.Version) {
				t.Errorf("it was restored to a server of version %s, want %s", got, next.Version)
			}
			i.Remove(t)
		}
		source.Remove(t)
	})
}

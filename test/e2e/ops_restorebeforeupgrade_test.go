package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestRestoreToBeforeUpgrade restores to times before and after an upgrade. The backup and the binary logs of the older
// version go to a server of the newer one.
func TestRestoreToBeforeUpgrade(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := archiveEnvironment(t, s)
		env["BACKUP_STORE"] = "file://" + t.TempDir()
		p := startPlatform(t, s, env)
		ts := openTasks(t, env)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		if err != nil {
			t.Fatal(err)
		}
		source := p.ownInstance(t, "dedicated-small")
		source.await(t, source.provision(t, later, body{"context": cloudFoundry}).Expect(t,
			http.StatusAccepted).String("operation"))
		c := makeObjects(t, source)
		source.await(t, source.backUp(t).Expect(t, http.StatusAccepted).String("operation"))
		var moments []moment
		change := func(statements ...string) {
			t.Helper()
			exec(t, c.open(t), statements...)
			at := time.Now().Add(time.Second).Truncate(time.Second)
			testdrive.Eventually(t, testdrive.Patience, "the second has passed", func() bool {
				return time.Now().After(at.Add(time.Second))
			})
			moments = append(moments, moment{at, dataOf(t, c)})
			archived(t, ts, source, at)
		}
		change("INSERT INTO items (name) VALUES ('before')", "CREATE TABLE copied AS SELECT * FROM items")
		p.Kill(t)
		next := servers.Later(t, present)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = startPlatform(t, s, env)
		source.platform = p
		source.await(t, source.upgrade(t, next.Version).Expect(t, http.StatusAccepted).String("operation"))
		change("INSERT INTO items (name) VALUES ('after')", "DROP TABLE copied")
		for n, m := range moments {
			i := p.ownInstance(t, "dedicated-small")
			i.await(t, i.restoredTo(t, source.id, m.at).Expect(t, http.StatusAccepted).String("operation"))
			_, restored := i.bound(t, nil)
			if got := dataOf(t, restored); !slices.Equal(got, m.data) {
				t.Errorf("moment %d:\n%s\ninstead of\n%s", n, strings.Join(got, "\n"), strings.Join(m.data, "\n"))
			}
			if got := read[string](t, restored.open(t), "SELECT VERSION()"); !strings.HasPrefix(got, next.Version) {
				t.Errorf("it was restored to a server of version %s, want %s", got, next.Version)
			}
			i.remove(t)
		}
		source.remove(t)
	})
}

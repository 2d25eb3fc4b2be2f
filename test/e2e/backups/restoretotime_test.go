package backups

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// archiveEnvironment is the environment of brokers that archive the binary logs of dedicated-small every second.
func archiveEnvironment(t *testing.T, server servers.MySQL) map[string]string {
	env := testdrive.Environment(t, server)
	env["CATALOG"] = testdrive.EditedCatalog(t, testdrive.InPlan("dedicated-small", "max_bindings:",
		"archive_binary_logs: true, backup_every_hours: 24, max_bindings:"))
	env["ARCHIVE_INTERVAL"] = "1s"
	return env
}

// moment is a time, and the contents of a database at that time. Nothing was committed in the same second.
type moment struct {
	at       time.Time
	contents []string
}

// momentOf lets a second pass in which nothing changes.
func momentOf(t *testing.T, c testdrive.Credentials) moment {
	at := time.Now().Add(time.Second).Truncate(time.Second) // by when the last change was acknowledged
	testdrive.Eventually(t, "the second has passed", func() bool { return time.Now().After(at.Add(time.Second)) })
	return moment{at, testdrive.Contents(t, c)}
}

// archived waits until everything that was committed before a time is archived.
func archived(t *testing.T, ts testdrive.Tasks, i testdrive.Instance, at time.Time) {
	ts.Until(t, "the binary logs are archived until "+at.Format(time.RFC3339),
		"SELECT coalesce(max(until) >= $1, false) FROM binary_log WHERE instance_id = $2", at, i.ID)
}

// TestRestoreToTime restores a dedicated instance to several times at which its data is known, before and after an
// upgrade: the backup and the binary logs of the older version go to a server of the newer one. How each statement is
// replayed, package binlog tests.
func TestRestoreToTime(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		service := s3.Start(t)
		env := archiveEnvironment(t, s)
		service.Configure(env)
		faults := testdrive.NewFaults(t, env)
		present, err := mysqld.ReadBinary(env["LAUNCHER_MYSQLD"])
		require.NoError(t, err)
		p := testdrive.StartPlatform(t, s, env)
		ts := testdrive.OpenTasks(t, env)
		source := p.MakeOwn(t, "dedicated-small")
		c := testdrive.MakeObjects(t, source)
		db := c.Open(t)
		source.Await(t, source.BackUp(t).Operation(t))

		var moments []moment
		note := func() { moments = append(moments, momentOf(t, c)) }
		testdrive.Exec(t, db, "INSERT INTO items (name) VALUES ('three')")
		note()
		testdrive.Exec(t, db, "DELETE FROM items WHERE name = 'one'", "CREATE TABLE other (id INT PRIMARY KEY, big LONGBLOB)",
			"INSERT INTO other VALUES (1, REPEAT('ab', 300000))", "CREATE TABLE copied AS SELECT * FROM other",
			"ALTER TABLE items ADD COLUMN more INT NOT NULL DEFAULT 7",
			"DROP VIEW names", "CREATE VIEW names AS SELECT id, name FROM items",
			"CREATE PROCEDURE "+c.Database+".again() INSERT INTO items (name) VALUES ('again')", "CALL again()")
		note()
		// The broker is killed after it has written a segment and before it has recorded that. The server is killed, too.
		faults.Decide(testdrive.DieAt("archive: written", 1))
		testdrive.Exec(t, db, "UPDATE items SET more = 8")
		p.Wait(t)
		faults.GoOn()
		testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], syscall.SIGKILL)
		testdrive.ExpireLeases(t, ts.Pool)
		next := servers.Later(t, present)
		env["LAUNCHER_MYSQLD"] = present.Path + "," + next.Path
		p = testdrive.StartPlatform(t, s, env)
		source.Platform = p
		testdrive.Eventually(t, "the server is back", func() bool { return db.PingContext(t.Context()) == nil })
		testdrive.Exec(t, db, "DELETE FROM items WHERE name = 'two'", "DROP TABLE copied", "TRUNCATE TABLE other",
			"CREATE EVENT ticking ON SCHEDULE EVERY 1 HOUR STARTS CURRENT_TIMESTAMP + INTERVAL 1 HOUR DO DELETE FROM items")
		note()
		last := moments[len(moments)-1] // before the upgrade
		archived(t, ts, source, last.at)
		testdrive.Eventually(t, "the age of the archive is a metric", func() bool {
			age, err := strconv.ParseFloat(p.Scrape(t)[`mysql_broker_binary_log_age_seconds{plan="dedicated-small"}`], 64)
			return err == nil && age < 600
		})
		// PostgreSQL is restored from a backup that was taken when the archive began. The server has purged its first file
		// since.
		ts.Exec(t, "UPDATE binary_log SET file = begin_file, position = begin_at, file_began = 0")
		ts.Until(t, "the archive goes on where it was",
			"SELECT count(*) = 1 AND bool_and(ended_at IS NULL AND file <> begin_file) FROM binary_log")
		source.Await(t, source.Upgrade(t, next.Version).Operation(t))
		testdrive.Exec(t, c.Open(t), "INSERT INTO items (name) VALUES ('after')")
		note()
		archived(t, ts, source, moments[len(moments)-1].at)
		for n, m := range moments {
			i := p.OwnInstance(t, "dedicated-small")
			operation := i.RestoredTo(t, source.ID, m.at).Operation(t)
			if n == 1 { // the broker is killed in the middle of the replay, and the source is deleted meanwhile
				faults.Decide(testdrive.DieAt("provision: replayed", 4))
				p.Wait(t)
				faults.GoOn()
				testdrive.ExpireLeases(t, ts.Pool)
				p = testdrive.StartPlatform(t, s, env)
				source.Platform, i.Platform = p, p
				source.Remove(t)
			}
			i.Await(t, operation)
			_, restored := i.Bound(t, nil)
			testdrive.ExpectContents(t, fmt.Sprintf("what was restored to moment %d", n), restored, m.contents)
			got := testdrive.Read[string](t, restored.Open(t), "SELECT VERSION()")
			assert.True(t, strings.HasPrefix(got, next.Version),
				"it was restored to a server of version %s, want %s", got, next.Version)
			i.Remove(t)
		}

		// PostgreSQL loses the records, and the object store a segment. A restored instance may have an archive, too.
		ts.Until(t, "the archive ends with its instance",
			"SELECT ended_at IS NOT NULL FROM binary_log WHERE instance_id = $1", source.ID)
		testdrive.StopBroker(t, p)
		var backups int
		ts.Scan(t, &backups, "SELECT count(*) FROM backup")
		var until, imported time.Time
		ts.Scan(t, &until, "SELECT until FROM binary_log WHERE instance_id = $1", source.ID)
		ts.Exec(t, "DELETE FROM binary_log")
		ts.Exec(t, "DELETE FROM backup")
		p = testdrive.StartPlatform(t, s, env)
		out := p.Operator(env).Run(t, 0, "backups", "import").Stdout
		assert.Equal(t, fmt.Sprintf("Backups imported: %d.\n", backups), out)
		// It may go further: the archiver may have told the object store, and not PostgreSQL, that nothing more was written.
		ts.Scan(t, &imported, "SELECT until FROM binary_log WHERE instance_id = $1", source.ID)
		assert.False(t, imported.Before(until), "the archive goes until %v, and went until %v", imported, until)
		objects := slices.DeleteFunc(service.Objects(t), func(name string) bool {
			return !strings.Contains(name, source.ID+"/l_") || strings.Count(name, "/") < 3 // segments are in the folder of their file
		})
		require.NoError(t, os.Remove(filepath.Join(service.Dir, objects[0]))) // it begins where the backup was taken
		i := p.OwnInstance(t, "dedicated-small")
		i.AwaitFailure(t, i.RestoredTo(t, source.ID, last.at).Operation(t), "lacks a part")
		i.Remove(t)
		testdrive.ExpectRefusal(t, p.NewInstance(t, "dedicated-small").RestoredTo(t, source.ID, time.Now().Add(time.Hour)),
			http.StatusBadRequest, "between 2")
		testdrive.ExpectRefusal(t, p.NewInstance(t, "shared-small").RestoredTo(t, source.ID, last.at), http.StatusBadRequest,
			"Choose a dedicated plan")
	})
}

// TestArchiveWithoutObjectStore takes the object store away. The server keeps its binary logs for the archive, until
// they need too much room; then the archive ends, and the next backup begins another one.
func TestArchiveWithoutObjectStore(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	const room = 40 << 20
	env := archiveEnvironment(t, s)
	store := filepath.Join(t.TempDir(), "store")
	require.NoError(t, os.Mkdir(store, 0o700))
	env["BACKUP_STORE"] = "file://" + store
	env["FAULT_ARCHIVE_ROOM"] = fmt.Sprint(room)
	testdrive.NewFaults(t, env)
	p := testdrive.StartPlatform(t, s, env)
	ts := testdrive.OpenTasks(t, env)
	i := p.MakeOwn(t, "dedicated-small")
	_, c := i.Bound(t, nil)
	db := c.Open(t)
	testdrive.Exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
	i.BackedUp(t)
	write := func(mebibytes int) {
		for range mebibytes {
			testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT('x', 1 << 20))")
		}
		testdrive.Exec(t, db, "DELETE FROM large")
	}
	logs := func() (bytes int64) {
		files, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "data", "binlog.0*"))
		require.True(t, err == nil && len(files) != 0, "binary logs: %q, %v", files, err)
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	takeAway := func() { require.NoError(t, os.Rename(store, store+".away")) }
	putBack := func() { require.NoError(t, os.Rename(store+".away", store)) }

	// For a while, nothing is lost.
	takeAway()
	write(12)
	p.AwaitLog(t, "archiving the binary logs of a server failed")
	kept := momentOf(t, c)
	got := logs()
	assert.True(t, got >= 12<<20, "the server has %d MiB of binary logs", got>>20)
	putBack()
	archived(t, ts, i, kept.at)

	takeAway()
	write(room>>20 + 20)
	p.AwaitLog(t, "an archive of binary logs has ended")
	testdrive.Eventually(t, "the logs are purged", func() bool { return logs() < room })
	var reason string
	ts.Scan(t, &reason, "SELECT end_reason FROM binary_log ORDER BY began_at LIMIT 1")
	assert.Contains(t, reason, "filled the server's disk", "the archive has ended")
	lost := momentOf(t, c)
	putBack()
	i.BackedUp(t)
	testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES ('later')")
	last := momentOf(t, c)
	archived(t, ts, i, last.at)
	testdrive.ExpectRefusal(t, p.OwnInstance(t, "dedicated-small").RestoredTo(t, i.ID, lost.at), http.StatusBadRequest, "between")
	for _, m := range []moment{kept, last} {
		restored := p.NewInstance(t, "dedicated-small")
		restored.Await(t, restored.RestoredTo(t, i.ID, m.at).Operation(t))
		_, c := restored.Bound(t, nil)
		testdrive.ExpectContents(t, "what was restored to "+m.at.String(), c, m.contents)
	}
}

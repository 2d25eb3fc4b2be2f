// Package slow tests the compiled broker where that takes minutes: disks get full, and upgrades fail.
package slow

import (
	"database/sql"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

type body = testdrive.Body

func TestMain(m *testing.M) { servers.Main(m) }

// diskMiB is room for two small servers and the data directory that they are copied from.
const diskMiB = 512

// On a full disk, operations that need space fail with a clear message and leave nothing behind. A mysqld may survive a
// full disk or not; once there is space it serves again, and it can be deleted while there is none.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		p, tasks := testdrive.StartPlatformBy(t, disk.Start, s, env), testdrive.OpenTasks(t, env)

		disk.Fill(t, 0)
		expectNoLaunch(t, p, disk, tasks)
		disk.Free(t)
		i := p.MakeOwn(t, "dedicated-small")
		_, c := i.Bound(t, nil)
		db := c.Open(t)
		testdrive.Exec(t, db, "CREATE TABLE kept (n INT, filling LONGBLOB)", "INSERT INTO kept VALUES (7, NULL)")
		disk.Fill(t, 4)
		expectNoLaunch(t, p, disk, tasks) // now that the data directory to copy is there
		disk.Fill(t, 0)
		operation := expectFullDisk(t, p, i, db)
		disk.Free(t)
		tasks.AwaitFailure(t, i.ID, limits.Stuck, "no room")
		testdrive.ExpectNoRoom(t, i, operation, tasks, "no room")
		testdrive.Eventually(t, "the server serves", func() bool { return db.PingContext(t.Context()) == nil })
		assert.Equal(t, 7, testdrive.Read[int](t, db, "SELECT n FROM kept"), "the row reads")
		p = startOnFullDisk(t, p, disk, env)
		i.Platform = p
		if s.Flavour == "mariadb" { // MySQL hangs
			p.AwaitLog(t, "a server keeps ending because its disk is full")
		}
		i.Remove(t) // while the disk is full
		i.Deprovision(t, testdrive.Async).Expect(t, http.StatusGone)
		expectEmptyDisk(t, disk)
		testdrive.ExpectNoProcess(t, env["LAUNCHER_DIR"])
		disk.Free(t)
		i = p.OwnInstance(t, "dedicated-small")
		i.Await(t, i.BeginProvision(t))
		i.Remove(t)
	})
}

// startOnFullDisk has servers end that have kept no temporary files, in whose space they could start again, and fills the
// disk before another broker starts them.
func startOnFullDisk(t *testing.T, p testdrive.Platform, disk *testdrive.Disk, env map[string]string) testdrive.Platform {
	p.Kill(t)
	testdrive.SignalMysqlds(t, env["LAUNCHER_DIR"], syscall.SIGTERM)
	testdrive.Eventually(t, "the servers have ended", func() bool {
		return len(testdrive.Mysqlds(t, env["LAUNCHER_DIR"])) == 0
	})
	disk.Fill(t, 0)
	return testdrive.StartPlatformBy(t, disk.Start, p.Server, env)
}

// expectNoLaunch fails the test unless a new server finds no room, and leaves nothing behind.
func expectNoLaunch(t *testing.T, p testdrive.Platform, disk *testdrive.Disk, tasks testdrive.Tasks) {
	var before []string
	for _, e := range readDir(t, disk.Path("instances")) {
		before = append(before, e.Name())
	}
	i := p.OwnInstance(t, "dedicated-small")
	testdrive.ExpectNoRoom(t, i, i.BeginProvision(t), tasks, "no room on the disk")
	for _, e := range readDir(t, disk.Path("instances")) {
		assert.True(t, slices.Contains(before, e.Name()), "left over: %s", e.Name())
	}
	i.Remove(t)
}

// expectFullDisk fails the test unless writes that need space fail, an update tells users why it fails, and other
// instances are unaffected. The update may still run: its cleanup waits for a server that the full disk has crashed.
func expectFullDisk(t *testing.T, p testdrive.Platform, i testdrive.Instance, db *sql.DB) (update string) {
	// MySQL may even abort, if InnoDB writes in the background at that moment.
	_, err := db.ExecContext(t.Context(), "INSERT INTO kept VALUES (8, REPEAT('x', 8000000))")
	assert.Error(t, err, "the full disk took 8 MB")
	update = i.UpdatePlan(t, testdrive.Async, "dedicated-large").Operation(t)
	testdrive.Eventually(t, "users read why", func() bool {
		r := i.Poll(t, "?operation="+update).Expect(t, http.StatusOK)
		return strings.Contains(r.String("description"), "no room for a dedicated server")
	})
	shared := p.MakeOwn(t, "shared-small")
	shared.Deprovision(t, testdrive.Sync).Expect(t, http.StatusOK)
	return update
}

func expectEmptyDisk(t *testing.T, disk *testdrive.Disk) {
	for _, dir := range []string{"instances", "trash"} {
		assert.Empty(t, readDir(t, disk.Path(dir)), "left over in %s", dir)
	}
}

func readDir(t *testing.T, path string) []os.DirEntry {
	entries, err := os.ReadDir(path)
	require.NoError(t, err)
	return entries
}

package e2e

import (
	"database/sql"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// diskMiB is room for two small servers and the data directory that they are copied from.
const diskMiB = 512

// On a full disk, operations that need space fail with a clear message and leave nothing behind. A mysqld may survive a
// full disk or not; once there is space it serves again, and it can be deleted while there is none.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		env := testdrive.Environment(t, s)
		disk := testdrive.MountDisk(t, env["LAUNCHER_DIR"], diskMiB)
		p, tasks := startPlatformBy(t, disk.Start, s, env), openTasks(t, env)

		disk.Fill(t, 0)
		expectNoLaunch(t, p, disk, tasks)
		disk.Free(t)
		i := p.makeOwn(t, "dedicated-small")
		_, c := i.bound(t, nil)
		db := c.open(t)
		exec(t, db, "CREATE TABLE kept (n INT, filling LONGBLOB)", "INSERT INTO kept VALUES (7, NULL)")
		disk.Fill(t, 4)
		expectNoLaunch(t, p, disk, tasks) // now that the data directory to copy is there
		disk.Fill(t, 0)
		operation := expectFullDisk(t, p, i, db)
		disk.Free(t)
		tasks.awaitFailure(t, i.id, restartTime, "no room")
		expectNoRoom(t, i, operation, tasks, "no room")
		testdrive.Eventually(t, restartTime, "the server serves", func() bool { return db.PingContext(t.Context()) == nil })
		if n := read[int](t, db, "SELECT n FROM kept"); n != 7 {
			t.Errorf("the row reads %d", n)
		}
		startOnFullDisk(t, p, disk, env)
		if s.Flavour == "mariadb" { // MySQL hangs
			p.AwaitLog(t, "a server ends again and again because its disk is full")
		}
		i.remove(t) // while the disk is full
		i.deprovision(t, later).Expect(t, http.StatusGone)
		expectEmptyDisk(t, disk)
		expectNoProcess(t, env["LAUNCHER_DIR"])
		disk.Free(t)
		i = p.ownInstance(t, "dedicated-small")
		i.await(t, i.begin(t))
		i.remove(t)
	})
}

// startOnFullDisk has servers end that have kept no temporary files, in whose space they could start again, and fills the
// disk before the broker starts them.
func startOnFullDisk(t *testing.T, p platform, disk *testdrive.Disk, env map[string]string) {
	t.Helper()
	p.Pause(t)
	for _, pid := range testdrive.Mysqlds(t, env["LAUNCHER_DIR"]) {
		if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	testdrive.Eventually(t, restartTime, "the servers have ended", func() bool {
		return len(testdrive.Mysqlds(t, env["LAUNCHER_DIR"])) == 0
	})
	disk.Fill(t, 0)
	p.Signal(t, syscall.SIGCONT)
}

// expectNoLaunch fails the test unless a new server finds no room, and leaves nothing behind.
func expectNoLaunch(t *testing.T, p platform, disk *testdrive.Disk, tasks tasks) {
	t.Helper()
	var before []string
	for _, e := range readDir(t, disk.Path("instances")) {
		before = append(before, e.Name())
	}
	i := p.ownInstance(t, "dedicated-small")
	expectNoRoom(t, i, i.begin(t), tasks, "no room on the disk")
	for _, e := range readDir(t, disk.Path("instances")) {
		if !slices.Contains(before, e.Name()) {
			t.Errorf("left over: %s", e.Name())
		}
	}
	i.remove(t)
}

// expectFullDisk fails the test unless writes that need space fail, an update tells users why it fails, and other
// instances are unaffected. The update may still run: its cleanup waits for a server that the full disk has crashed.
func expectFullDisk(t *testing.T, p platform, i instance, db *sql.DB) (update string) {
	t.Helper()
	// MySQL may even abort, if InnoDB writes in the background at that moment.
	if _, err := db.ExecContext(t.Context(), "INSERT INTO kept VALUES (8, REPEAT('x', 8000000))"); err == nil {
		t.Error("the full disk took 8 MB")
	}
	update = i.updatePlan(t, later, "dedicated-large").Expect(t, http.StatusAccepted).String("operation")
	testdrive.Eventually(t, testdrive.Patience, "users read why", func() bool {
		r := i.poll(t, "?operation="+update).Expect(t, http.StatusOK)
		return strings.Contains(r.String("description"), "no room for a dedicated server")
	})
	shared := p.makeOwn(t, "shared-small")
	shared.deprovision(t, now).Expect(t, http.StatusOK)
	return update
}

func expectEmptyDisk(t *testing.T, disk *testdrive.Disk) {
	t.Helper()
	for _, dir := range []string{"instances", "trash"} {
		if left := readDir(t, disk.Path(dir)); len(left) > 0 {
			t.Errorf("left over in %s: %v", dir, left)
		}
	}
}

func readDir(t *testing.T, path string) []os.DirEntry {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

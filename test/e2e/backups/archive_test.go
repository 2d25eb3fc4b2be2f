package backups

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// archivedInstance creates a dedicated instance whose binary logs are archived, with a backup to begin with.
func archivedInstance(t *testing.T, p testdrive.Platform) (testdrive.Instance, testdrive.Credentials) {
	t.Helper()
	i := p.MakeOwn(t, "dedicated-small")
	_, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
	i.Await(t, i.BackUp(t).Operation(t))
	return i, c
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
	i, c := archivedInstance(t, p)
	db := c.Open(t)
	write := func(mebibytes int) {
		t.Helper()
		for range mebibytes {
			testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT('x', 1 << 20))")
		}
		testdrive.Exec(t, db, "DELETE FROM large")
	}
	logs := func() (bytes int64) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(env["LAUNCHER_DIR"], "instances", "*", "data", "binlog.0*"))
		require.True(t, err == nil && len(files) != 0, "binary logs: %q, %v", files, err)
		for _, f := range files {
			if info, err := os.Stat(f); err == nil {
				bytes += info.Size()
			}
		}
		return bytes
	}
	must := func(err error) {
		t.Helper()
		require.NoError(t, err)
	}
	takeAway := func() {
		t.Helper()
		must(os.Rename(store, store+".away"))
		must(os.WriteFile(store, nil, 0o600))
	}
	putBack := func() {
		t.Helper()
		must(os.Remove(store))
		must(os.Rename(store+".away", store))
	}

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
	testdrive.Eventually(t, limits.Stuck, "the logs are purged", func() bool { return logs() < room })
	var reason string
	ts.Scan(t, &reason, "SELECT end_reason FROM binary_log ORDER BY began_at LIMIT 1")
	assert.Contains(t, reason, "filled the server's disk", "the archive has ended")
	lost := momentOf(t, c)
	putBack()
	i.Await(t, i.BackUp(t).Operation(t))
	testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES ('later')")
	last := momentOf(t, c)
	archived(t, ts, i, last.at)
	testdrive.ExpectRefusal(t, p.OwnInstance(t, "dedicated-small").RestoredTo(t, i.ID, lost.at), http.StatusBadRequest, "between")
	for _, m := range []moment{kept, last} {
		expectAt(t, p, i.ID, m)
	}
}

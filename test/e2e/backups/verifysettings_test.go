package backups

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/test/limits"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A backup of a dedicated server that the settings of the shared server refuse is not damaged. It is verified as soon as
// an operator has changed the settings and asks for it. Partitions, which those settings forbid on MariaDB, are no reason
// to refuse it.
func TestVerifyWithOtherSettings(t *testing.T) {
	t.Parallel()
	s := servers.Any(t)
	settings := []string{"max_allowed_packet=2M"}
	if s.Flavour == "mariadb" {
		settings = append(settings, "partition=OFF")
	}
	private := testdrive.PrivateWith(t, s.Flavour, settings...)
	env := testdrive.Environment(t, private)
	s3.Start(t).Configure(env)
	p := testdrive.StartPlatform(t, private, env)
	o := p.Operator(env)
	i := p.MakeOwn(t, "dedicated-small")
	_, c := i.Bound(t, nil)
	testdrive.Exec(t, c.Open(t), "CREATE TABLE wide (id INT PRIMARY KEY, b LONGBLOB)",
		"INSERT INTO wide VALUES (1, REPEAT('x', 4 << 20))",
		"CREATE TABLE parts (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
		"INSERT INTO parts VALUES (1, 'one'), (2, 'two')")
	shown := i.Await(t, i.BackUp(t).Operation(t))
	id := testdrive.BackupIn(t, shown)
	assert.Contains(t, shown[len(shown)-1], "could not be restored as a test yet",
		"a backup that cannot be verified ends with")
	testdrive.ExpectRefusal(t, p.OwnInstance(t, "dedicated-small").Restored(t, i.ID, nil), http.StatusBadRequest, id+".")
	only := func() map[string]any {
		t.Helper()
		var all []map[string]any
		o.Read(t, &all, "backups", i.ID)
		require.True(t, len(all) == 1 && all[0]["verify_error"] == nil, "backups: %v", all)
		return all[0]
	}
	p.AwaitLog(t, "a backup cannot be verified on a server with these settings")
	why, _ := only()["verify_refused"].(string)
	assert.True(t, strings.HasPrefix(why, "shared server ") && strings.Contains(why, "max_allowed_packet"),
		"the backup is refused because of %q", why)
	out := o.Run(t, 0, "backups", i.ID).Stdout
	assert.True(t, strings.Contains(out, "\trefused by settings\t") && strings.Contains(out, why),
		"backups printed %q", out)
	testdrive.Exec(t, p.Admin(t), "SET GLOBAL max_allowed_packet = 64 << 20")
	o.Run(t, 0, "backups", "verify", id)
	testdrive.Eventually(t, limits.Stuck, "the backup is verified", func() bool {
		b := only()
		return b["verified_at"] != nil && b["verify_refused"] == nil
	})
}

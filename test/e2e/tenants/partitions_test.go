package tenants

import (
	"net/http"
	"strings"
	"testing"

	"mysql-broker/test/limits"
	"mysql-broker/test/s3"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// TestPartitionsOfADedicatedServer backs up a table with partitions, which the settings for shared servers forbid on
// MariaDB. The backup is sound all the same, and restores the partitions. A copy to a shared server is refused.
func TestPartitionsOfADedicatedServer(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		forbidden := s.Flavour == "mariadb"
		private := testdrive.PrivateWith(t, s.Flavour, map[bool][]string{true: {"partition=OFF"}}[forbidden]...)
		env := testdrive.Environment(t, private)
		s3.Start(t).Configure(env)
		p := testdrive.StartPlatform(t, private, env)
		o := p.Operator(env)
		source := p.OwnInstance(t, "dedicated-small")
		source.Await(t, source.Provision(t, testdrive.Async, body{"context": testdrive.CloudFoundry}).Expect(t,
			http.StatusAccepted).String("operation"))
		_, c := source.Bound(t, nil)
		testdrive.Exec(t, c.Open(t), "CREATE TABLE parts (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
			"INSERT INTO parts VALUES (1, 'one'), (2, 'two')")
		source.Await(t, source.BackUp(t).Expect(t, http.StatusAccepted).String("operation"))
		o.Run(t, 0, "backups", "verify", o.IDs(t, "backup", "backups")[0])
		var all []map[string]any
		testdrive.Eventually(t, limits.Stuck, "the backup is verified", func() bool {
			all = nil
			o.Read(t, &all, "backups")
			return all[0]["verified_at"] != nil || all[0]["verify_error"] != nil
		})
		if problem := all[0]["verify_error"]; problem != nil {
			t.Errorf("the backup is damaged: %v", problem)
		}

		again := p.OwnInstance(t, "dedicated-small")
		again.Await(t, again.Restored(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation"))
		_, c = again.Bound(t, nil)
		var name, create string
		if err := c.Open(t).QueryRow("SHOW CREATE TABLE parts").Scan(&name, &create); err != nil ||
			!strings.Contains(create, "PARTITION BY HASH") {
			t.Errorf("the restored table: %s, %v", create, err)
		}

		smaller := p.NewInstance(t, "shared-small")
		state, shown := smaller.AwaitOperation(t, smaller.ID,
			smaller.Clone(t, source.ID, nil).Expect(t, http.StatusAccepted).String("operation"))
		refused := state == "failed" && strings.Contains(shown[len(shown)-1], "Table parts has partitions")
		if refused != forbidden || !refused && state != "succeeded" {
			t.Errorf("a copy on the shared server %s: %q", state, shown)
		}
	})
}

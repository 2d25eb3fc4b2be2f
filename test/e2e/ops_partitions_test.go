package e2e

import (
	"net/http"
	"strings"
	"testing"

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
		p := startPlatform(t, private, env)
		o := p.operator(env)
		source := p.ownInstance(t, "dedicated-small")
		source.await(t, source.provision(t, later, body{"context": cloudFoundry}).Expect(t,
			http.StatusAccepted).String("operation"))
		_, c := source.bound(t, nil)
		exec(t, c.open(t), "CREATE TABLE parts (id INT PRIMARY KEY, name VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 4",
			"INSERT INTO parts VALUES (1, 'one'), (2, 'two')")
		source.await(t, source.backUp(t).Expect(t, http.StatusAccepted).String("operation"))
		o.run(t, 0, "backups", "verify", o.ids(t, "backup", "backups")[0])
		var all []map[string]any
		testdrive.Eventually(t, testdrive.Patience, "the backup is verified", func() bool {
			all = nil
			o.read(t, &all, "backups")
			return all[0]["verified_at"] != nil || all[0]["verify_error"] != nil
		})
		if problem := all[0]["verify_error"]; problem != nil {
			t.Errorf("the backup is damaged: %v", problem)
		}

		again := p.ownInstance(t, "dedicated-small")
		again.await(t, again.restored(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation"))
		_, c = again.bound(t, nil)
		var name, create string
		if err := c.open(t).QueryRow("SHOW CREATE TABLE parts").Scan(&name, &create); err != nil ||
			!strings.Contains(create, "PARTITION BY HASH") {
			t.Errorf("the restored table: %s, %v", create, err)
		}

		smaller := p.newInstance(t, "shared-small")
		state, shown := smaller.AwaitOperation(t, smaller.id,
			smaller.clone(t, source.id, nil).Expect(t, http.StatusAccepted).String("operation"))
		refused := state == "failed" && strings.Contains(shown[len(shown)-1], "Table parts has partitions")
		if refused != forbidden || !refused && state != "succeeded" {
			t.Errorf("a copy on the shared server %s: %q", state, shown)
		}
	})
}

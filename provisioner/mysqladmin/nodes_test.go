package mysqladmin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A node of Group Replication that was started, and has not joined its group yet, accepts writes. The broker writes
// nothing there: the node could not join then.
func TestNodeThatHasNotJoinedItsGroup(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != "mysql" {
			return
		}
		f := newFixture(t, testdrive.PrivateWith(t, s.Flavour, "gtid_mode=ON", "enforce_gtid_consistency=ON",
			"plugin_load_add=group_replication.so", "loose_group_replication_start_on_boot=OFF",
			"loose_group_replication_group_name=9a2f5c1e-6c0d-4b53-8f5e-3f0d6a1b7c42"))
		f.exec(f.root, "GRANT SELECT ON performance_schema.* TO "+f.config.User)
		f.config.Nodes = []string{f.config.Addr}
		node, err := mysqladmin.Open(f.config)
		f.must(err)
		defer node.Close()
		err = node.Ping(t.Context())
		assert.True(t, mysqladmin.CannotReach(err), "a connection that may write: %v", err)
	})
}

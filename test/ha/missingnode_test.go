package ha

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The uri of a cluster of MySQL lacks the primary. The error says which node that is.
func TestPrimaryMissingInURI(t *testing.T) {
	t.Parallel()
	servers.EachMySQL(t, func(t *testing.T, s servers.MySQL) {
		if s.Flavour != mysqld.MySQL {
			t.Skip("every node of Galera accepts writes")
		}
		c := testdrive.StartCluster(t, s.Flavour)
		primary := c.Nodes[c.Primary(t)]
		others := slices.DeleteFunc(c.Addresses(), func(address string) bool { return address == primary.Address() })
		server, err := mysqladmin.Open(mysqladmin.Config{Addr: others[0], Nodes: others, User: primary.User,
			Password: primary.Password, CA: []byte(primary.CA)})
		require.NoError(t, err)
		defer server.Close()
		_, err = server.Flavour(t.Context())
		assert.False(t, err == nil || !strings.Contains(err.Error(), "the primary of its group is "+primary.Address()),
			"the primary is %s: %v", primary.Address(), err)
	})
}

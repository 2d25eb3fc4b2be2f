package copying_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// A shared server that gets full refuses the data of a move. The instance stays where it was, and nothing is left on the
// full server, where the instance fits once it has less data. Only MySQL survives that its system tablespace is full.
func TestMoveToASharedServerThatGetsFull(t *testing.T) {
	t.Parallel()
	able := slices.DeleteFunc(slices.Clone(servers.AllMySQL(t)), func(s servers.MySQL) bool { return s.Flavour != mysqld.MySQL })
	servers.EachOf(t, able, func(t *testing.T, s servers.MySQL) {
		full := testdrive.PrivateWith(t, s.Flavour, "innodb_file_per_table=OFF",
			"innodb_data_file_path=ibdata1:12M:autoextend:max:16M")
		env := testdrive.Environment(t, s)
		described, err := json.Marshal([]map[string]any{testdrive.Described(inprocess.SharedName, s), testdrive.Described("full", full)})
		require.NoError(t, err)
		env["MYSQL_SERVERS"] = string(described)
		site := inprocess.New(t, s, env, plan.Set{small})
		_, err = site.Store.Servers.Drain(t.Context(), "full")
		site.Must(err)
		i := site.Provision(small)
		site.Must(site.Store.Servers.Undrain(t.Context(), "full"))
		db := site.Bind(i, "b", plan.BindingParameters{Role: plan.ReadWrite}).Open(t)
		testdrive.Exec(t, db, "CREATE TABLE large (id INT AUTO_INCREMENT PRIMARY KEY, filling MEDIUMBLOB)")
		for range 20 {
			testdrive.Exec(t, db, "INSERT INTO large (filling) VALUES (REPEAT('x', 1000000))")
		}
		move := func() store.Task {
			moving, err := instances.MoveTo(t.Context(), site.Store, site.Fleet.Shared, i.ID, "full")
			site.Must(err)
			ended, err := site.Store.Tasks.WaitEnd(t.Context(), moving.ID)
			site.Must(err)
			return ended
		}
		moved := move()
		assert.Contains(t, moved.LastError, "1114", "the server's error")
		assert.Regexp(t, "^The disk of the MySQL server for the plan is full. The service instance stays where it was. ",
			moved.Description)
		assert.Equal(t, inprocess.SharedName, site.Instance(i.ID).Location.Server)
		testdrive.Exec(t, db, "DELETE FROM large WHERE id > 2", "INSERT INTO large (filling) VALUES ('written after the move')")
		testdrive.ExpectTenants(t, testdrive.Platform{Server: full}.Admin(t), 0, 0)

		moved = move()
		assert.Equal(t, store.Succeeded, moved.State, "%s %s", moved.Description, moved.LastError)
	})
}

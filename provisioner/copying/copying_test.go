package copying_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/instances"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
	"mysql-broker/test/inprocess"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

var small = plan.Plan{ID: "small", Name: "small", ServiceID: "mysql", Kind: plan.Shared, Async: plan.AsyncNever,
	MaxStorageMB: 100, MaxConnections: 20, MaxBindings: 10}

// Accounts that are created again may do no more than before.
func TestCreateAccounts(t *testing.T) {
	t.Parallel()
	large := small
	large.ID, large.Name, large.MaxStorageMB = "large", "large", 1000
	s := servers.Any(t)
	site := inprocess.New(t, s, testdrive.Environment(t, s), plan.Set{small, large})
	for what, test := range map[string]struct {
		state  func(tx *store.Tx, id string)
		of     plan.Plan
		writes bool
	}{
		"within its quota": {of: small, writes: true, state: func(*store.Tx, string) {}},
		"over its quota":   {of: small, state: func(tx *store.Tx, id string) { tx.SetOver(id, true) }},
		"frozen":           {of: small, state: func(tx *store.Tx, id string) { tx.SetFrozen(id, true) }},
		"over its quota, and within that of the next plan": {of: large, writes: true,
			state: func(tx *store.Tx, id string) { tx.SetOver(id, true) }},
	} {
		i := site.Provision(small)
		bind := func() (id string, c testdrive.Credentials) {
			id = uuid.NewString()
			return id, site.Bind(i, id, plan.BindingParameters{Role: plan.ReadWrite})
		}
		_, valid := bind()
		id, expired := bind()
		site.Must(site.Store.Usage.Record(t.Context(), []store.UsageChange{{Database: i.Database, Bytes: 101 << 20}}))
		testdrive.OpenTasks(t, site.Env).Exec(t, "UPDATE binding SET expires_at = now() WHERE id = $1", id)
		testdrive.Exec(t, site.Root, "DROP USER `"+valid.Username+"`", "DROP USER `"+expired.Username+"`")
		site.InTx(func(tx *store.Tx) error { test.state(tx, i.ID); return nil })
		i = site.Instance(i.ID)
		i.PlanID = test.of.ID
		accounts, err := site.Store.Bindings.Accounts(t.Context(), i.ID)
		site.Must(err)

		var created *store.Task
		site.InTx(func(tx *store.Tx) error {
			n := store.NewTask{InstanceID: i.ID, Kind: store.Update, PlanID: test.of.ID}
			n.Owner, n.LeaseTTL = site.Broker.Tasks.Lease()
			created = tx.InsertTask(n)
			return nil
		})
		_, err = site.Broker.Tasks.Do(t.Context(), *created, task.Workflow{Steps: []task.Step{{Name: "create",
			Do: func(ctx context.Context, run *task.Run) error {
				return site.Broker.CreateAccounts(ctx, run, i, accounts)
			}}}}, time.Now())
		site.Must(err)

		_, err = testdrive.Connect(t, valid.Fields(t)).ExecContext(t.Context(), "CREATE TABLE more (id INT)")
		assert.Equal(t, test.writes, err == nil, "%s, an account that writes: %v", what, err)
		assert.Error(t, testdrive.Connect(t, expired.Fields(t)).PingContext(t.Context()),
			"%s, an account whose binding has expired logs in", what)
	}
}

// A shared server that gets full refuses the data of a move. The instance stays where it was, and nothing is left on the
// full server, where the instance fits once it has less data. Only MySQL survives that its system tablespace is full.
func TestMoveToASharedServerThatGetsFull(t *testing.T) {
	t.Parallel()
	able := slices.DeleteFunc(slices.Clone(servers.AllMySQL(t)), func(s servers.MySQL) bool { return s.Flavour != mysqld.MySQL })
	servers.EachOf(t, able, func(t *testing.T, s servers.MySQL) {
		full := testdrive.PrivateWith(t, s.Flavour, "innodb_file_per_table=OFF",
			"innodb_data_file_path=ibdata1:12M:autoextend:max:16M")
		env := testdrive.Environment(t, s)
		env["MYSQL_SERVERS"] = testdrive.Encode(t, []any{testdrive.Described(inprocess.SharedName, s),
			testdrive.Described("full", full)})
		site := inprocess.New(t, s, env, plan.Set{small})
		_, err := site.Store.Servers.Drain(t.Context(), "full")
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

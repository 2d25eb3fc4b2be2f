package copying_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"

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

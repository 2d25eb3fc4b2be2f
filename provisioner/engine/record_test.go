package engine_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/engine"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// What operators and schedules begin waits for nothing: it is refused as platforms' requests are.
func TestRecord(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		make    func(tx *store.Tx)
		beside  engine.Beside
		refused bool
	}{
		"ready":         {make: func(*store.Tx) {}},
		"being deleted": {refused: true, make: func(tx *store.Tx) { tx.SetInstanceState("i", store.DeleteFailed) }},
		"busy": {refused: true, make: func(tx *store.Tx) { tx.InsertTask(store.NewTask{InstanceID: "i", Kind: store.Update}) },
			beside: engine.Beside{Bindings: true, Mixture: true}},
		"a binding is busy": {refused: true, make: bindingBusy},
		"beside bindings":   {beside: engine.Beside{Bindings: true}, make: bindingBusy},
		"a mixture":         {refused: true, make: func(tx *store.Tx) { tx.SetFrozen("i", true) }},
		"even a mixture":    {beside: engine.Beside{Mixture: true}, make: func(tx *store.Tx) { tx.SetFrozen("i", true) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := servers.Store(t)
			require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
				tx.Adopt(store.InstanceCopy{ID: "i", Database: "db"}, store.SharedLocation("a"))
				test.make(tx)
				return nil
			}))
			recorded, err := engine.Record(t.Context(), s, "i", test.beside,
				func(_ *store.Tx, i store.Instance) (store.NewTask, error) {
					return store.NewTask{InstanceID: i.ID, Kind: store.BackUp}, nil
				})
			_, notNow := errors.AsType[engine.NotNowError](err)
			assert.False(t, notNow != test.refused || !notNow && (err != nil || recorded.Kind != store.BackUp),
				"%v, %v", recorded, err)
		})
	}
}

func bindingBusy(tx *store.Tx) {
	tx.InsertTask(store.NewTask{InstanceID: "i", BindingID: "b", Kind: store.Bind})
}

// What failed and was undone is not tried again, as the platform has read that it failed. Nor is what is gone.
func TestRetryIsRefused(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.OpenStore(t, url)
	records := testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url})
	for kind, says := range map[string]string{
		store.Update:      "the platform knows",
		store.Provision:   "its service instance is gone",
		store.Deprovision: "what the task was to delete is gone",
	} {
		var failed *store.Task
		for _, step := range []func(tx *store.Tx){
			func(tx *store.Tx) { failed = tx.InsertTask(store.NewTask{InstanceID: kind, Kind: kind}) },
			func(tx *store.Tx) { tx.CancelTask(failed.ID, "It was undone.") },
		} {
			require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error { step(tx); return nil }))
		}
		if kind == store.Provision { // which is retried only if it kept the data that it found
			records.Exec(t, "UPDATE task SET last_error = 'kept what is there: data' WHERE id = $1", failed.ID)
		}
		_, err := (engine.Kinds{}).Retry(t.Context(), s, failed.ID)
		assert.ErrorContains(t, err, says, kind)
	}
}

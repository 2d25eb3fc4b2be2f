package recovery

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mark"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func TestMain(m *testing.M) { servers.Main(m) }

// An instance that was getting the data of a deleted one when the backup was made has got it, or has not, or was itself
// deleted since. The data is there in every case, once, and the operator reads whose it is.
func TestUndeleteThatTheBackupCut(t *testing.T) {
	t.Parallel()
	became := func(created time.Time) []store.InstanceCopy {
		return []store.InstanceCopy{copied("j", db, "small", created)}
	}
	for name, test := range map[string]struct {
		listed func(created time.Time) []store.InstanceCopy
		undone bool // the task, when the backup was made
		lost   bool // the database
		says   string
		state  string
		left   map[string]string // the retained data, by who had it, with who is getting it
	}{
		"not listed yet": {
			listed: func(time.Time) []store.InstanceCopy { return nil },
			says: "provision of the past: it was taking back what the deleted instance i has left, and nothing records how that " +
				"ended. The data stays, with all that applications have written since. The platform may know the instance: " +
				"delete it, and create one with undelete, within a day",
			state: store.CreateFailed, left: map[string]string{"i": "j"}},
		"ready since": {
			listed: became, says: "provision of the past: the instance has got what the deleted instance i had left",
			state: store.Ready, left: map[string]string{}},
		"ready since, without its database": {
			listed: became, lost: true, says: "provision of the past: it was taking back", state: store.CreateFailed,
			left: map[string]string{"i": "j"}},
		"being undone": {
			listed: became, undone: true, says: "provision of the past: it was taking back", state: store.CreateFailed,
			left: map[string]string{"i": "j"}},
		"another instance of that id": {
			listed: func(time.Time) []store.InstanceCopy {
				return []store.InstanceCopy{copied("j", "db_other", "small", after)}
			},
			says: "provision of the past: it was taking back", state: store.CreateFailed, left: map[string]string{"i": "j"}},
		"deleted and kept since": {
			listed: func(created time.Time) []store.InstanceCopy {
				return []store.InstanceCopy{left(copied("j", db, "small", created), created.Add(time.Hour))}
			},
			says: "the instance was deleted after the backup, and its data is kept", left: map[string]string{"j": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servers.Store(t)
			at := store.SharedLocation("shared-1")
			require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
				tx.Adopt(store.InstanceCopy{ID: "i", Database: db}, at)
				tx.Retain("i", store.Retained{ID: "r"}, 7, nil)
				return nil
			}))
			provision := store.NewTask{InstanceID: "j", Kind: store.Provision, PlanID: "small"}
			task, err := s.Retained.RecordUndelete(t.Context(), store.Asked{At: time.Now()},
				store.Instance{ID: "j", Location: at, PlanID: "small", Database: db}, provision, "r", nil)
			require.NoError(t, err)
			if test.undone {
				task.Phase = store.Cleanup
			}
			instances, err := s.Recovery.Instances(t.Context(), at.Server)
			require.NoError(t, err)
			now, err := s.Clock(t.Context())
			require.NoError(t, err)

			r := &recovery{Config: Config{Store: s}, before: now.Add(time.Hour), gone: map[string]bool{},
				whole: map[string]bool{}, undeleting: map[string]string{}, tasks: []store.Task{task}, places: newPlaces()}
			r.places.recorded["j"] = instances[0]
			r.places.exists[placedAt(at, db)] = existence{complete: true}
			listed := test.listed(instances[0].CreatedAt)
			for _, c := range listed {
				r.places.list(c, at)
			}
			there := site{server: at.Server, instances: map[string]store.RecordedInstance{},
				holds: inventory.Holdings{Databases: []string{db}}}
			if test.lost {
				there.holds.Databases = nil
				r.before = now.Add(-time.Hour) // its deletion is not known
			}
			there.retained, err = r.retained(t.Context(), at.Server)
			require.NoError(t, err)
			r.compareSite(there, instances, mark.Record{Found: true, Instances: listed})
			r.endTasks()
			require.Len(t, r.plan.Items, 1, "%+v", r.plan.Items)
			assert.Contains(t, r.plan.Items[0].Why, test.says)
			require.NoError(t, r.plan.Items[0].Do(t.Context()))

			i, err := s.Instances.Get(t.Context(), "j")
			if test.state == "" {
				assert.ErrorIs(t, err, store.ErrNotFound)
			} else if assert.NoError(t, err) {
				assert.Equal(t, test.state, i.State)
			}
			kept, err := s.Retained.At(t.Context(), at.Server)
			require.NoError(t, err)
			owners := map[string]string{}
			for _, k := range kept {
				owners[k.InstanceID] = k.AdoptedBy
			}
			assert.Equal(t, test.left, owners, "whose data is kept")
		})
	}
}

package operator

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/recovery"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// What is left to brokers is not called done.
func TestSettledAccountsAreLeftToBrokers(t *testing.T) {
	t.Parallel()
	shown := func(action recovery.Action, resumed bool) string {
		var out bytes.Buffer
		item := recoverItem{Item: recovery.Item{Action: action, Kind: "account", Why: "a reason"}, Done: true}
		require.NoError(t, recoverReport{Items: []recoverItem{item}, Resumed: resumed}.show(&out, false, true))
		return out.String()
	}
	settled, adopted := shown(recovery.Settle, true), shown(recovery.Adopt, true)
	assert.Contains(t, adopted, "a reason (done)")
	assert.NotContains(t, adopted, "until brokers have settled them")
	assert.NotContains(t, settled, "(done)")
	assert.Contains(t, settled, "a reason (left to brokers, which set them within about a minute)")
	assert.Contains(t, settled, "Some accounts may not be able to write, or may write too much, until brokers have settled them.")

	held := shown(recovery.Settle, false)
	assert.Contains(t, held, "a reason (brokers set them when they carry on)", "another item failed")
	assert.NotContains(t, held, "within about a minute")
}

// A recovery that was refused has stopped no broker.
func TestRefusedRecoveryChangesNothing(t *testing.T) {
	t.Parallel()
	for refused, want := range map[bool]string{true: "Nothing was changed.", false: "Brokers do not carry on yet."} {
		var out bytes.Buffer
		require.NoError(t, recoverReport{refused: refused}.show(&out, false, true))
		assert.Contains(t, out.String(), want)
	}
}

// Brokers do not carry on if the hold could not be ended.
func TestRecoveryWhoseEndFails(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	testdrive.OpenTasks(t, map[string]string{"DATABASE_URL": url}).Exec(t,
		"ALTER TABLE mark ADD CHECK (held_since IS NOT NULL) NOT VALID")
	cfg := recovery.Config{Store: servers.OpenStore(t, url), Fleet: fleet.New(fleet.Config{})}
	report, err := recoverFrom(t.Context(), cfg, true, true)
	assert.ErrorContains(t, err, "end the hold")
	assert.False(t, report.Resumed)
}

func TestMain(m *testing.M) { servers.Main(m) }

// An evacuation passes over what somebody else has deleted or moved since it listed the server.
func TestEvacuatePassesOverWhatHasLeft(t *testing.T) {
	t.Parallel()
	c := &console{store: servers.Store(t)}
	all, err := shared.Open([]shared.Config{{Admin: mysqladmin.Config{Name: "new", Addr: "127.0.0.1:1", User: "u",
		Password: "p"}}}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = all.Close() })
	require.NoError(t, c.store.InTx(t.Context(), func(tx *store.Tx) error {
		tx.Adopt(store.InstanceCopy{ID: "moved", Database: "db"}, store.SharedLocation("new"))
		return nil
	}))
	for _, id := range []string{"deleted", "moved"} {
		sentence, err := c.moveAway(t.Context(), all, id, "old", []string{"new"})
		assert.True(t, sentence == "" && err == nil, "%s: %q, %v", id, sentence, err)
	}
	_, err = c.moveAway(t.Context(), all, "moved", "new", []string{"new"})
	assert.Error(t, err, "what is still on the server is passed over")
}

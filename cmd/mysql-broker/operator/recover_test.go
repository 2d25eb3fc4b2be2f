package operator

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/recovery"
)

// What is left to brokers is not called done.
func TestSettledAccountsAreLeftToBrokers(t *testing.T) {
	t.Parallel()
	shown := func(action recovery.Action) string {
		var out bytes.Buffer
		item := recoverItem{Item: recovery.Item{Action: action, Kind: "account", Why: "a reason"}, Done: true}
		require.NoError(t, recoverReport{Items: []recoverItem{item}, Resumed: true}.show(&out, false, true))
		return out.String()
	}
	settled, adopted := shown(recovery.Settle), shown(recovery.Adopt)
	assert.Contains(t, adopted, "a reason (done)")
	assert.NotContains(t, adopted, "until brokers have settled them")
	assert.NotContains(t, settled, "(done)")
	assert.Contains(t, settled, "a reason (left to brokers, which set them within about a minute)")
	assert.Contains(t, settled, "Some accounts may not be able to write, or may write too much, until brokers have settled them.")
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

package app

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// Without the key of its archive, a backup cannot be restored to a time.
func TestOldKeysOfLogArchivesAreNeeded(t *testing.T) {
	t.Parallel()
	ctx, s := t.Context(), servers.OpenStore(t, servers.Postgres(t))
	objects := objectstore.OpenDirectory(t.TempDir())
	text, err := store.NewKeyset()
	require.NoError(t, err)
	vault := func() backup.Vault {
		keys, err := store.ParseKeyset(text)
		require.NoError(t, err)
		return backup.Vault{Objects: objects, Keys: keys}
	}
	check := func(v *backup.Vault, says string) {
		err := checkKeysOfBackups(ctx, s, v)
		assert.False(t, (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says),
			"the check said %v, not %q", err, says)
	}
	l, err := s.Logs.Begin(ctx, store.BinaryLog{ID: "l_1", InstanceID: "i", Server: "d_1", BeginFile: "binlog.1", BeganAt: time.Now()})
	require.NoError(t, err)
	v := vault()
	check(&v, "l_1") // not in the object store
	check(nil, "BACKUP_STORE is not set")
	_, err = v.OpenLog(ctx, backup.Log{ID: l.ID, InstanceID: l.InstanceID, Server: l.Server})
	require.NoError(t, err)
	check(&v, "")
	for _, change := range []func(string) (string, error){store.AddKey, store.PromoteKey} {
		text, err = change(text)
		require.NoError(t, err)
	}
	v = vault()
	check(&v, "l_1")
	_, err = v.Rewrap(ctx)
	require.NoError(t, err)
	check(&v, "")
}

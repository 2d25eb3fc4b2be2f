package app

import (
	"strings"
	"testing"
	"time"

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
	if err != nil {
		t.Fatal(err)
	}
	vault := func() backup.Vault {
		t.Helper()
		keys, err := store.ParseKeyset(text)
		if err != nil {
			t.Fatal(err)
		}
		return backup.Vault{Objects: objects, Keys: keys}
	}
	check := func(v *backup.Vault, says string) {
		t.Helper()
		err := checkKeysOfBackups(ctx, s, v)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("the check said %v, not %q", err, says)
		}
	}
	l, err := s.Logs.Begin(ctx, store.BinaryLog{ID: "l_1", InstanceID: "i", Server: "d_1", BeginFile: "binlog.1", BeganAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	v := vault()
	check(&v, "l_1") // not in the object store
	check(nil, "BACKUP_STORE is not set")
	if _, err := v.OpenLog(ctx, backup.Log{ID: l.ID, InstanceID: l.InstanceID, Server: l.Server}); err != nil {
		t.Fatal(err)
	}
	check(&v, "")
	for _, change := range []func(string) (string, error){store.AddKey, store.PromoteKey} {
		if text, err = change(text); err != nil {
			t.Fatal(err)
		}
	}
	v = vault()
	check(&v, "l_1")
	if _, err := v.Rewrap(ctx); err != nil {
		t.Fatal(err)
	}
	check(&v, "")
}

package store_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

func TestKeysetSteps(t *testing.T) {
	t.Parallel()
	old := newKeyset(t)
	added := changed(t, store.AddKey, old)
	promoted := changed(t, store.PromoteKey, added)
	dropped := changed(t, store.DropOldKeys, promoted)
	for name, text := range map[string]string{"added": added, "promoted": promoted, "dropped": dropped} {
		_, err := store.ParseKeyset(text)
		assert.NoError(t, err, name)
	}
	for name, wrong := range map[string]func() (string, error){
		"add twice":                   func() (string, error) { return store.AddKey(added) },
		"promote what was not added":  func() (string, error) { return store.PromoteKey(old) },
		"promote twice":               func() (string, error) { return store.PromoteKey(promoted) },
		"drop before it was promoted": func() (string, error) { return store.DropOldKeys(added) },
		"add to what is no keyset":    func() (string, error) { return store.AddKey("c2VjcmV0") },
		"add to what is no base64":    func() (string, error) { return store.AddKey("hunter2!") },
	} {
		text, err := wrong()
		if err == nil || text != "" {
			t.Errorf("%s: %q, %v", name, text, err)
		} else if strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), old) {
			t.Errorf("%s: the error quotes the keyset: %v", name, err)
		}
	}
}

func newKeyset(t *testing.T) string {
	t.Helper()
	text, err := store.NewKeyset()
	require.NoError(t, err)
	return text
}

func changed(t *testing.T, change func(string) (string, error), text string) string {
	t.Helper()
	after, err := change(text)
	require.NoError(t, err)
	require.NotEqual(t, text, after, "the keyset is as it was")
	return after
}

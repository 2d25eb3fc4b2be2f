package backup

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup/objectstore"
)

// plainKeys encrypt nothing.
type plainKeys struct{}

func (plainKeys) Wrap(key, _ []byte) ([]byte, error)       { return key, nil }
func (plainKeys) Unwrap(wrapped, _ []byte) ([]byte, error) { return wrapped, nil }
func (plainKeys) Current([]byte) bool                      { return true }

// written is a backup with one object, in a directory.
func written(t *testing.T, dir string) (Vault, Manifest) {
	t.Helper()
	objects := objectstore.OpenDirectory(dir)
	v := Vault{Objects: objects, Keys: plainKeys{}}
	m := Manifest{ID: "b_1", InstanceID: "i", key: make([]byte, keyBytes)}
	s, err := newSealer(m.key)
	if err == nil {
		err = s.begin(place(m.InstanceID, m.ID, "data"))
	}
	require.NoError(t, err)
	_, err = io.WriteString(s, "INSERT")
	data, ending := s.end()
	require.NoError(t, errors.Join(err, ending, v.Objects.Put(t.Context(), "i/b_1/data", data)))
	m.Schema = describe("data", data)
	raw, err := json.Marshal(m)
	require.NoError(t, err)
	sealed, err := v.seal(raw, m.key)
	require.NoError(t, errors.Join(err, v.Objects.Put(t.Context(), "i/b_1/"+manifestName, sealed)))
	return v, m
}

// A backup of which a part is missing or different is damaged. One whose manifest is gone was deleted.
func TestDamage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm          func(data, manifest string) error
		damaged, gone bool
	}{
		"nothing":              {harm: func(string, string) error { return nil }},
		"an object is missing": {harm: func(data, _ string) error { return os.Remove(data) }, damaged: true},
		"an object has other bytes": {harm: func(data, _ string) error { return os.WriteFile(data, []byte("x"), 0o600) },
			damaged: true},
		"an object is longer": {harm: func(data, _ string) error { return os.WriteFile(data, make([]byte, 1<<20), 0o600) },
			damaged: true},
		"the backup is deleted meanwhile": {harm: func(data, manifest string) error {
			return errors.Join(os.Remove(manifest), os.Remove(data))
		}, gone: true},
	} {
		dir := t.TempDir()
		v, m := written(t, dir)
		require.NoError(t, test.harm(filepath.Join(dir, "i/b_1/data"), filepath.Join(dir, "i/b_1", manifestName)))
		var plain []byte
		err := v.read(t.Context(), m, m.Schema, func(r io.Reader) (err error) {
			plain, err = io.ReadAll(r)
			return err
		})
		_, damaged := errors.AsType[*DamagedError](err)
		gone := errors.Is(err, ErrNotFound)
		assert.False(t, damaged != test.damaged || gone != test.gone || err == nil && string(plain) != "INSERT",
			"%s: %q, %v", name, plain, err)
	}
}

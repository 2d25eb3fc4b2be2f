package backup

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/store"
)

// shelf is a vault in a directory.
type shelf struct {
	Vault
	dir    string
	keyset string
}

func newShelf(t *testing.T) shelf {
	t.Helper()
	dir := t.TempDir()
	objects := objectstore.OpenDirectory(dir)
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	s := shelf{Vault{Objects: objects}, dir, keyset}
	return s.with(t, keyset)
}

// with is the shelf of a broker with another keyset.
func (s shelf) with(t *testing.T, keyset string) shelf {
	t.Helper()
	keys, err := store.ParseKeyset(keyset)
	require.NoError(t, err)
	s.Keys, s.keyset = keys, keyset
	return s
}

// change rewrites an object.
func (s shelf) change(t *testing.T, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(s.dir, name)
	raw, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(raw), 0o600)
	}
	require.NoError(t, err)
}

// copy copies an object to another name.
func (s shelf) copy(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, from))
	if err == nil {
		err = os.MkdirAll(filepath.Dir(filepath.Join(s.dir, to)), 0o700)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, to), raw, 0o600)
	}
	require.NoError(t, err)
}

func flipBit(raw []byte) []byte {
	raw[len(raw)/2] ^= 1
	return raw
}

func cutOff(raw []byte) []byte { return raw[:len(raw)-1] }

func isDamaged(err error) bool {
	var damaged *DamagedError
	return errors.As(err, &damaged)
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	all, err := io.ReadAll(r)
	assert.NoError(t, err)
	return string(all)
}

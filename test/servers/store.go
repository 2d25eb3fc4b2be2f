package servers

import (
	"testing"

	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// Store returns a store over a new database with the present schema and a keyset of its own.
func Store(t testing.TB) *store.Store { return OpenStore(t, Postgres(t)) }

// OpenStore opens a database that was migrated before, with a new keyset.
func OpenStore(t testing.TB, url string) *store.Store {
	keyset, err := store.NewKeyset()
	require.NoError(t, err)
	return OpenStoreWith(t, url, keyset)
}

// OpenStoreWith is OpenStore with that keyset.
func OpenStoreWith(t testing.TB, url, keyset string) *store.Store {
	keys, err := store.ParseKeyset(keyset)
	require.NoError(t, err)
	s, err := store.Open(t.Context(), url, keys)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

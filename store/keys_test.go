package store_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/servers"
)

func isForeign(err error) bool {
	_, ok := errors.AsType[*store.ForeignKeysetError](err)
	return ok
}

// If brokers with different keysets start at the same time on an empty database, one keyset is accepted, for good.
func TestAdoptKeysetAtOnce(t *testing.T) {
	t.Parallel()
	const brokers = 8
	url := servers.Postgres(t)
	stores := make([]*store.Store, brokers)
	for n := range stores {
		stores[n] = open(t, url, newKeyset(t))
	}
	outcomes := make([]chan error, brokers)
	for n, s := range stores {
		outcomes[n] = make(chan error, 1)
		go func() { outcomes[n] <- s.Keys.AdoptKeyset(t.Context()) }()
	}
	adopted := 0
	for n, outcome := range outcomes {
		err := <-outcome
		again := stores[n].Keys.AdoptKeyset(t.Context())
		assert.Equal(t, err == nil, again == nil, "first %v, then %v", err, again)
		switch {
		case err == nil:
			adopted++
		case !isForeign(err):
			t.Error(err)
		}
	}
	assert.Equal(t, 1, adopted, "%d keysets were accepted", adopted)
}

// The CA of dedicated servers, which the first broker makes, hides neither a foreign keyset nor a binding's missing
// key.
func TestAdoptKeysetBesideAnAuthority(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s, foreign := open(t, url, newKeyset(t)), open(t, url, newKeyset(t))
	require.NoError(t, s.Authorities.AddFirst(t.Context(), "certificate", "key"))
	err := foreign.Keys.AdoptKeyset(t.Context())
	assert.True(t, isMissing(err), "a foreign keyset before one is recorded: %v", err)
	assert.NoError(t, s.Keys.AdoptKeyset(t.Context()))
	err = foreign.Keys.AdoptKeyset(t.Context())
	assert.True(t, isForeign(err), "a foreign keyset: %v", err)
	insert(t, s, "one", 1)
	err = foreign.Keys.AdoptKeyset(t.Context())
	assert.True(t, isMissing(err), "a foreign keyset where passwords are stored: %v", err)
}

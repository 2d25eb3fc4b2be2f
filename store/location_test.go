package store_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// A task that remembers a location finds the same server again.
func TestLocationsAreRemembered(t *testing.T) {
	t.Parallel()
	want := store.DedicatedLocation("process", "d_1")
	raw, err := json.Marshal(want)
	require.NoError(t, err)
	var got store.Location
	require.NoError(t, json.Unmarshal(raw, &got))
	assert.Equal(t, want, got)
}

// TestLocations reads recorded locations, one of them recorded as a broker without launchers does.
func TestLocations(t *testing.T) {
	t.Parallel()
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, dedicated_id, database_name)
		VALUES ('old', 's', 'p', 'ready', 'd_old', 'db_old')`)
	want := map[string]store.Location{
		"old":       {Kind: store.OnDedicated, Server: "d_old", Launcher: "process"},
		"dedicated": {Kind: store.OnDedicated, Server: "d_1", Launcher: "another"},
		"shared":    {Kind: store.OnShared, Server: "shared-1"},
	}
	inTx(t, s, func(tx *store.Tx) error {
		if err := tx.InsertInstance(store.Instance{ID: "dedicated", Location: want["dedicated"],
			Database: "db_1"}); err != nil {
			return err
		}
		tx.Adopt(store.InstanceCopy{ID: "shared", Database: "db_2"}, want["shared"])
		return nil
	})
	got := map[string]store.Location{}
	require.NoError(t, s.Instances.Each(t.Context(), store.InstanceQuery{}, func(i store.ListedInstance) error {
		got[i.ID] = i.Location
		return nil
	}))
	for id, at := range want {
		i, err := s.Instances.Get(t.Context(), id)
		require.NoError(t, err)
		assert.Equal(t, at, i.Location, id)
		assert.Equal(t, at, got[id], "%s is listed", id)
		server := ""
		if at.Shared() {
			server = at.Server
		}
		recorded, err := s.Recovery.Instances(t.Context(), server)
		require.NoError(t, err)
		assert.True(t, slices.ContainsFunc(recorded, func(r store.RecordedInstance) bool {
			return r.ID == id && r.Location == at
		}), "%s is not at %+v among %+v", id, at, recorded)
	}
}

// TestSecondLocation has data moved: what is at the next location is no orphan, and need not be there; what stays
// behind at the former one is an orphan.
func TestSecondLocation(t *testing.T) {
	t.Parallel()
	shared := `INSERT INTO instance (id, service_id, plan_id, state, server, database_name, next_server, next_dedicated_id,
		next_launcher) VALUES ('i', 's', 'p', 'ready', 'from', 'db', 'to', '', '')`
	dedicated := `INSERT INTO instance (id, service_id, plan_id, state, dedicated_id, database_name, next_server,
		next_dedicated_id, next_launcher) VALUES ('j', 's', 'p', 'ready', 'd_from', 'its', '', 'd_to', 'another')`
	account := `INSERT INTO binding (instance_id, id, state, role, account, password) VALUES ('i', 'b', 'ready', '', 'u', '')`
	made := `INSERT INTO resource (kind, server, name, instance_id, launcher) VALUES
		('database', 'from', 'db', 'i', ''), ('account', 'from', 'u', 'i', ''),
		('dedicated server', '', 'd_from', 'j', 'process'),
		('database', 'to', 'db', 'i', ''), ('account', 'to', 'u', 'i', ''),
		('dedicated server', '', 'd_to', 'j', 'another')`
	moved := `UPDATE instance SET server = next_server, dedicated_id = next_dedicated_id, launcher = next_launcher,
		next_server = NULL, next_dedicated_id = NULL, next_launcher = NULL`
	from, to := []store.ResourceKey{{Kind: store.DatabaseResource, Server: "from", Name: "db"},
		{Kind: store.AccountResource, Server: "from", Name: "u"}, {Kind: store.DedicatedResource, Name: "d_from"}},
		[]store.ResourceKey{{Kind: store.DatabaseResource, Server: "to", Name: "db"},
			{Kind: store.AccountResource, Server: "to", Name: "u"}, {Kind: store.DedicatedResource, Name: "d_to"}}
	for _, test := range []struct {
		name                   string
		s                      *store.Store
		fromLive, fromExpected bool
		toLive, toExpected     bool
	}{
		{"while it moves", filled(t, shared, dedicated, account, made), true, true, true, false},
		{"after it", filled(t, shared, dedicated, account, made, moved), false, false, true, true},
	} {
		expect := func(key store.ResourceKey, live, expected bool) {
			r, err := test.s.Resources.Get(t.Context(), key.Kind, key.Server, key.Name)
			require.NoError(t, err)
			assert.True(t, r.Live == live && r.Expected == expected,
				"%s: %+v is live: %t, expected: %t", test.name, key, r.Live, r.Expected)
		}
		for n := range from {
			expect(from[n], test.fromLive, test.fromExpected)
			expect(to[n], test.toLive, test.toExpected)
		}
	}
}

// Code asks Location, or the column location_kind, for the kind of a location. It does not derive the kind from a name
// that is empty.
func TestLocationsAreNotToldByEmptiness(t *testing.T) {
	t.Parallel()
	derived := regexp.MustCompile(`\b(dedicated_id|i\.server)\s*(=|<>)\s*''|Location\.(Server|Launcher)\s*[!=]=\s*""`)
	for _, pattern := range []string{"*.go", "../provisioner/*.go", "../provisioner/*/*.go", "../broker/*.go",
		"../broker/*/*.go", "../cmd/*/*.go", "../cmd/*/*/*.go"} {
		files, err := filepath.Glob(pattern)
		require.True(t, err == nil && len(files) != 0, "%s: %d files, %v", pattern, len(files), err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			found := derived.Find(text)
			assert.Nil(t, found, "%s derives the kind of a location: %s", file, found)
		}
	}
}

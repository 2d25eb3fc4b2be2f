package mark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// The whole list is written once a day, or if PostgreSQL's clock was set back over midnight.
func TestSameDay(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		a, b time.Time
		same bool
	}{
		{noon, noon.Add(11 * time.Hour), true},
		{noon, noon.Add(12 * time.Hour), false},
		{noon, noon.Add(-12 * time.Hour), true},
		{noon, noon.Add(-13 * time.Hour), false},
		{noon, noon.In(time.FixedZone("", 13*3600)), true},
	} {
		assert.Equal(t, test.same, sameDay(test.a, test.b), "%v and %v", test.a, test.b)
	}
}

func TestCopiesOnASharedServer(t *testing.T) {
	t.Parallel()
	good := store.InstanceCopy{ID: "i", Database: "db", CreatedAt: noon, Retained: &store.RetainedCopy{ID: "r", DeletedAt: noon}}
	about, err := json.Marshal(good)
	require.NoError(t, err)
	for _, test := range []struct {
		about string
		ok    bool
	}{{string(about), true}, {string(about[1:]), false}, {`{"instance_id": "i", "database": "other"}`, false}, {`{"database": "db"}`, false}} {
		got, err := copies([]mysqladmin.ListedInstance{{Database: "db", About: test.about}})
		assert.True(t, (err == nil) == test.ok && (!test.ok || len(got) == 1 && got[0].ID == "i" &&
			reflect.DeepEqual(got[0].Retained, good.Retained)), "%s is %+v, %v", test.about, got, err)
	}
}

// directory is a launcher that only keeps notes and records.
type directory struct {
	launcher.Launcher
	notes   map[string][]byte
	records map[string]string
}

func (d directory) Records(context.Context) (map[string]string, error) { return d.records, nil }

func (d directory) ReadNote(_ context.Context, name string) ([]byte, error) {
	return d.notes[name], nil
}

func (d directory) WriteNote(_ context.Context, name string, content []byte) error {
	d.notes[name] = content
	return nil
}

func (d directory) Record(_ context.Context, id, text string) error {
	if d.records[id] = text; text == "" {
		delete(d.records, id)
	}
	return nil
}

// What a move has recorded beside a server stays there until the move ends; what a server has of an instance that is no
// longer there does not.
func TestRecordsOfArrivals(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	d := directory{notes: map[string][]byte{}, records: map[string]string{}}
	f := fleet.New(fleet.Config{Store: s, Launchers: map[string]launcher.Launcher{"here": d}})
	i := store.Instance{ID: "i", PlanID: "small", Location: store.SharedLocation("a"), Database: "db_i"}
	to := store.DedicatedLocation("here", "d_1")
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		tx.Adopt(store.InstanceCopy{ID: i.ID, PlanID: i.PlanID, Database: i.Database}, i.Location)
		return tx.SetDestination(t.Context(), i, to, "secret-Passw0rd", 0)
	}))
	c, err := s.Recovery.ArrivingCopy(t.Context(), "i", "large", "")
	require.NoError(t, err)
	require.NoError(t, Arrive(t.Context(), s, f, c, to))
	m, err := s.Recovery.Mark(t.Context())
	require.NoError(t, err)
	k := &Keeper{Config: Config{Store: s, Fleet: f}, identity: m.Identity}
	l := fleet.Launcher{Name: "here", Launcher: d}
	round := func(when string, there bool) {
		require.NoError(t, k.writeLauncher(t.Context(), l, m))
		assert.True(t, (d.records["d_1"] != "") == there, "%s: the record is %q", when, d.records["d_1"])
	}
	round("while the move goes on", true)
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error { tx.SwapPlaces("i"); return nil }))
	round("after it", true)
	d.records["d_2"] = d.records["d_1"]
	round("once more", true)
	text, kept := d.records["d_2"]
	assert.False(t, kept, "a server where the instance is not keeps the record %q", text)
}

func TestNotesOfLaunchers(t *testing.T) {
	t.Parallel()
	d := directory{notes: map[string][]byte{"mark-other": []byte(`{"task_id": 9}`)}, records: map[string]string{
		"d_o": `{"identity": "other", "instance_id": "o", "dedicated_id": "d_o"}`,
		"d_1": `{"identity": "own", "instance_id": "i", "dedicated_id": "d_1", "plan_id": "new"}`}}
	l := fleet.Launcher{Name: "here", Launcher: d}
	r, err := ReadDedicated(t.Context(), l, "own")
	assert.True(t, err == nil && !r.Found && len(r.Instances) == 1, "without a mark: %+v, %v", r, err)
	for _, want := range []int64{7, 3} {
		require.NoError(t, RestartDedicated(t.Context(), l, store.Mark{Identity: "own", TaskID: want, TaskAt: noon}))
		r, err := ReadDedicated(t.Context(), l, "own")
		assert.True(t, err == nil && r.Found && r.TaskID == want && len(r.Instances) == 1 && r.Instances[0].PlanID == "new",
			"read %+v, %v; want task %d", r, err, want)
	}
	d.records["d_1"] = "{"
	_, err = ReadDedicated(t.Context(), l, "own")
	assert.True(t, err != nil && strings.Contains(err.Error(), "d_1"), "a record that is cut off: %v", err)
	d.notes["mark-own"] = []byte(`{"task_id": `)
	_, err = ReadDedicated(t.Context(), l, "own")
	assert.True(t, err != nil && strings.Contains(err.Error(), "mark-own"), "a note that is cut off: %v", err)
}

// The log tells once that PostgreSQL is held, however often that is found, and once that it is not any more.
func TestHoldIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k := &Keeper{Config: Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}}
	held := &store.Hold{Since: noon, Reason: "an older backup"}
	for _, step := range []struct {
		held *store.Hold
		says string
	}{{nil, ""}, {held, "an older backup"}, {held, ""}, {nil, "no longer held"}, {nil, ""}, {held, "an older backup"}} {
		log.Reset()
		k.logHold(step.held)
		assert.True(t, (log.Len() > 0) == (step.says != "") && strings.Contains(log.String(), step.says),
			"held %v: %q, want %q", step.held != nil, log.String(), step.says)
	}
	log.Reset()
	k.writing.Log = k.Logger
	k.report(t.Context(), "shared-1", errors.Join(store.ErrHeld))
	assert.Empty(t, log.String(), "a hold is logged as a failure of a server")
}

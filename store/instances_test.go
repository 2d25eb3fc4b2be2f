package store_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/testdrive"
)

// TestLocations reads recorded locations, one of them recorded as a broker without launchers does.
func TestLocations(t *testing.T) {
	s := filled(t, `INSERT INTO instance (id, service_id, plan_id, state, dedicated_id, database_name)
		VALUES ('old', 's', 'p', 'ready', 'd_old', 'db_old')`)
	want := map[string]store.Location{
		"old":       {Kind: store.OnDedicated, Server: "d_old", Launcher: "process"},
		"dedicated": {Kind: store.OnDedicated, Server: "d_1", Launcher: "another"},
		"shared":    {Kind: store.OnShared, Server: "shared-1"},
	}
	insertInstance(t, s, store.Instance{ID: "dedicated", Location: want["dedicated"], Database: "db_1"})
	write(t, s, func(tx *store.Tx) { tx.Adopt(store.InstanceCopy{ID: "shared", Database: "db_2"}, want["shared"]) })
	got := map[string]store.Location{}
	for _, i := range listed(t, s.Instances.Each, store.InstanceQuery{}) {
		got[i.ID] = i.Location
	}
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

// TestSecondLocation has data moved: what is at the next location is no orphan, and need not be there. What stays behind
// at the former one is an orphan once that is forgotten.
func TestSecondLocation(t *testing.T) {
	s := parallel(t)
	ready(t, s, "i", "db")
	insertBinding(t, s, store.Binding{InstanceID: "i", ID: "b", Account: "u"})
	insertInstance(t, s, store.Instance{ID: "j", Location: store.DedicatedLocation("process", "d_from"), Database: "its"})
	write(t, s, func(tx *store.Tx) {
		tx.SetBindingState("i", "b", store.Ready)
		tx.SetInstanceState("j", store.Ready)
	})
	keys := func(server, dedicated string) []store.ResourceKey {
		return []store.ResourceKey{{Kind: store.DatabaseResource, Server: server, Name: "db"},
			{Kind: store.AccountResource, Server: server, Name: "u"}, {Kind: store.DedicatedResource, Name: dedicated}}
	}
	from, to := keys("a", "d_from"), keys("b", "d_to")
	expect := func(when string, of []store.ResourceKey, live, expected bool) {
		for _, key := range of {
			r, err := s.Resources.Get(t.Context(), key.Kind, key.Server, key.Name)
			require.NoError(t, err)
			assert.True(t, r.Live == live && r.Expected == expected,
				"%s: %+v is live: %t, expected: %t", when, key, r.Live, r.Expected)
		}
	}
	inTx(t, s, func(tx *store.Tx) error {
		i, j := store.Instance{ID: "i", Database: "db"}, store.Instance{ID: "j"}
		return errors.Join(tx.SetDestination(t.Context(), i, store.SharedLocation("b"), "", 1),
			tx.SetDestination(t.Context(), j, store.DedicatedLocation("another", "d_to"), "secret", 0))
	})
	expect("while it moves", from, true, true)
	expect("while it moves", to, true, false)
	write(t, s, func(tx *store.Tx) {
		tx.SwapPlaces("i")
		tx.SwapPlaces("j")
	})
	expect("after it", from, true, false)
	expect("after it", to, true, true)
	for _, id := range []string{"i", "j"} {
		require.NoError(t, s.Instances.ForgetFormer(t.Context(), id))
	}
	expect("once the former place is forgotten", from, false, false)
	expect("once the former place is forgotten", to, true, true)
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

// deletion records one of instance "i" that is in progress.
func deletion(t *testing.T, s *store.Store) store.Task {
	n := leased("i", "me")
	n.Kind = store.Deprovision
	return newTask(t, s, n)
}

// tellGone has the platform told that there is no instance "i".
func tellGone(t *testing.T, s *store.Store) {
	write(t, s, func(tx *store.Tx) {
		_, err := tx.BeginAbsent(t.Context(), "i")
		assert.ErrorIs(t, err, store.ErrNotFound)
	})
}

// recordOne records instance "i" for a request that is newer than the report of its absence at that time.
func recordOne(t *testing.T, s *store.Store, absent *time.Time) (store.Task, error) {
	i := store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_" + time.Now().String()}
	task, _, err := s.Instances.RecordProvision(t.Context(), store.Asked{At: time.Now(), Absent: absent}, i,
		provisionOf("i"), store.Room{OnServer: 10})
	return task, err
}

// reportedAbsent checks whether the platform was certainly told after a request that there is no instance "i".
func reportedAbsent(t *testing.T, s *store.Store, received time.Time, want bool) *time.Time {
	reported, since, err := s.Instances.ReportedAbsent(t.Context(), "i", received)
	assert.True(t, err == nil && since == want, "told since then: %v, %v instead of %v", since, err, want)
	return reported
}

func TestNothingIsRecordedThatPlatformsBelieveToBeGone(t *testing.T) {
	s, ctx := parallel(t), t.Context()
	assert.Nil(t, reportedAbsent(t, s, time.Now(), false), "before anybody asked")
	early := time.Now().Add(-time.Minute)
	tellGone(t, s)
	_, err := recordOne(t, s, nil)
	assert.ErrorIs(t, err, store.ErrExists, "recorded after the platform was told that there is none")
	reportedAbsent(t, s, early, true)
	absent := reportedAbsent(t, s, time.Now().Add(time.Second), false)
	tellGone(t, s)
	_, err = recordOne(t, s, absent)
	assert.ErrorIs(t, err, store.ErrExists, "recorded for a request of between two answers")
	absent = reportedAbsent(t, s, time.Now().Add(time.Second), false)
	task, err := recordOne(t, s, absent)
	require.NoError(t, err, "a newer request")

	// The end of its deletion tells the platform as much.
	write(t, s, func(tx *store.Tx) { tx.CancelTask(task.ID, "") })
	require.NoError(t, s.Queue.Finish(ctx, held(deletion(t, s)), store.Succeeded, "", true,
		func(tx *store.Tx) { tx.DeleteInstance("i") }))
	_, err = recordOne(t, s, absent)
	assert.ErrorIs(t, err, store.ErrExists, "recorded for a request of before the deletion")
	reportedAbsent(t, s, early, true)
	_, err = recordOne(t, s, reportedAbsent(t, s, time.Now().Add(time.Second), false))
	assert.NoError(t, err, "a newer request")
}

// A provision that waits for the end of the instance's deletion finds that the platform is told about it.
func TestNothingIsRecordedWhileADeletionEnds(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db")
	task := deletion(t, s)
	observer := connect(t, url)
	recorded := make(chan error, 1)
	inTx(t, s, func(tx *store.Tx) error {
		tx.DeleteInstance("i")
		if err := tx.Exec(t.Context(), fmt.Sprintf("UPDATE task SET state = 'succeeded', finished_at = now() WHERE id = %d",
			task.ID)); err != nil {
			return err
		}
		go func() {
			_, err := recordOne(t, s, nil)
			recorded <- err
		}()
		return awaitBlocked(t.Context(), observer)
	})
	assert.ErrorIs(t, <-recorded, store.ErrExists, "recorded beside the end of its deletion")
}

// The commit of a provision hangs, as PostgreSQL waits for a standby that is not there. Meanwhile nobody can say that
// there is no such instance.
func TestNothingIsAbsentWhileItsCommitHangs(t *testing.T) {
	t.Parallel()
	pg, ctx := testdrive.StartPostgres(t), t.Context()
	s := openMigrated(t, pg.URL)
	await := func(what, query string) {
		testdrive.Eventually(t, what, func() (holds bool) {
			conn, err := pgx.Connect(ctx, pg.URL) // a new one has the settings that all others have
			if err == nil {
				err = conn.QueryRow(ctx, query).Scan(&holds)
				conn.Close(ctx)
			}
			return err == nil && holds
		})
	}
	exec(t, pg.URL, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'", "SELECT pg_reload_conf()")
	await("PostgreSQL waits for a standby", "SELECT current_setting('synchronous_standby_names') = 'nobody'")
	recorded := make(chan error, 1)
	go func() {
		_, err := recordOne(t, s, nil)
		recorded <- err
	}()
	await("the commit hangs", "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep')")
	var looks sync.WaitGroup
	for what, look := range map[string]func() error{
		"a deletion": func() error {
			return s.InTx(ctx, func(tx *store.Tx) error {
				_, err := tx.BeginAbsent(ctx, "i")
				return err
			})
		},
		"an update": func() error {
			_, err := s.Instances.AfterOthers(ctx, "i")
			return err
		},
	} {
		looks.Go(func() { assert.NotErrorIs(t, look(), store.ErrNotFound, "%s of what is being recorded", what) })
	}
	looks.Wait()
	exec(t, pg.URL, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	testdrive.Receive(t, recorded, "the provision is recorded, or given up")
}

// After PostgreSQL's clock was set back, the report of an absence is in the future, and no request is known to be older.
func TestReportedAbsentAfterClockSetBack(t *testing.T) {
	s, url := fresh(t)
	tellGone(t, s)
	exec(t, url, "UPDATE absence SET reported_at = reported_at + interval '1 hour'")
	_, err := recordOne(t, s, reportedAbsent(t, s, time.Now(), false))
	assert.NoError(t, err, "a request that may be newer")
}

func TestAbsencesAreForgotten(t *testing.T) {
	s, url := fresh(t)
	tellGone(t, s)
	n, err := s.Instances.ForgetAbsences(t.Context())
	assert.True(t, n == 0 && err == nil, "forgotten too early: %d, %v", n, err)
	exec(t, url, "UPDATE absence SET reported_at = reported_at - interval '3 hours'")
	_, err = recordOne(t, s, nil)
	assert.NoError(t, err, "hours after the platform was told")
	n, err = s.Instances.ForgetAbsences(t.Context())
	assert.True(t, n == 1 && err == nil, "not forgotten: %d, %v", n, err)
}

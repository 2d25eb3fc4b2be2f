package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// tellGone has the platform told that there is no instance "i".
func tellGone(t *testing.T, s *store.Store) {
	t.Helper()
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.BeginAbsent(t.Context(), "i")
		assert.ErrorIs(t, err, store.ErrNotFound, "an instance that")
		return nil
	}))
}

// recordOne records instance "i" for a request that is newer than the report of its absence at that time.
func recordOne(t *testing.T, s *store.Store, absent *time.Time) (store.Task, error) {
	t.Helper()
	i := store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db_" + time.Now().String()}
	task, _, err := s.Instances.RecordProvision(t.Context(), store.Asked{At: time.Now(), Absent: absent}, i, provisionOf("i"), store.Room{OnServer: 10})
	return task, err
}

// reportedAbsent checks whether the platform was certainly told after a request that there is no instance "i".
func reportedAbsent(t *testing.T, s *store.Store, received time.Time, want bool) *time.Time {
	t.Helper()
	reported, since, err := s.Instances.ReportedAbsent(t.Context(), "i", received)
	assert.True(t, err == nil && since == want, "told since then: %v, %v instead of %v", since, err, want)
	return reported
}

func TestNothingIsRecordedThatPlatformsBelieveToBeGone(t *testing.T) {
	t.Parallel()
	s, ctx := servers.Store(t), t.Context()
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
	deletion := newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p", Owner: "me",
		LeaseTTL: time.Minute})
	require.NoError(t, s.Queue.Finish(ctx, held(deletion), store.Succeeded, "", true,
		func(tx *store.Tx) { tx.DeleteInstance("i") }))
	_, err = recordOne(t, s, absent)
	assert.ErrorIs(t, err, store.ErrExists, "recorded for a request of before the deletion")
	reportedAbsent(t, s, early, true)
	_, err = recordOne(t, s, reportedAbsent(t, s, time.Now().Add(time.Second), false))
	assert.NoError(t, err, "a newer request")
}

// A provision that waits for the end of the instance's deletion finds that the platform is told about it.
func TestNothingIsRecordedWhileADeletionEnds(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	insertInstance(t, s, store.Instance{ID: "i", Location: store.SharedLocation("a"), Database: "db"})
	deletion := newTask(t, s, store.NewTask{InstanceID: "i", Kind: store.Deprovision, PlanID: "p", Owner: "me",
		LeaseTTL: time.Minute})
	observer := connect(t, url)
	recorded := make(chan error, 1)
	inTx(t, s, func(tx *store.Tx) error {
		tx.DeleteInstance("i")
		if err := tx.Exec(ctx, fmt.Sprintf("UPDATE task SET state = 'succeeded', finished_at = now() WHERE id = %d",
			deletion.ID)); err != nil {
			return err
		}
		go func() {
			_, err := recordOne(t, s, nil)
			recorded <- err
		}()
		return awaitBlocked(ctx, observer)
	})
	assert.ErrorIs(t, <-recorded, store.ErrExists, "recorded beside the end of its deletion")
}

// The commit of a provision hangs, as PostgreSQL waits for a standby that is not there. Meanwhile nobody can say that
// there is no such instance.
func TestNothingIsAbsentWhileItsCommitHangs(t *testing.T) {
	t.Parallel()
	pg, ctx := testdrive.StartPostgres(t), t.Context()
	_, err := store.Migrate(ctx, pg.URL)
	require.NoError(t, err)
	s := servers.OpenStore(t, pg.URL)
	await := func(what, query string) {
		t.Helper()
		testdrive.Eventually(t, limits.Stuck, what, func() (holds bool) {
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
		looks.Go(func() {
			assert.NotErrorIs(t, look(), store.ErrNotFound, "%s of what is being recorded", what)
		})
	}
	looks.Wait()
	exec(t, pg.URL, "ALTER SYSTEM SET synchronous_standby_names = ''", "SELECT pg_reload_conf()")
	testdrive.Receive(t, recorded, "the provision is recorded, or given up")
}

// After PostgreSQL's clock was set back, the report of an absence is in the future, and no request is known to be older.
func TestReportedAbsentAfterClockSetBack(t *testing.T) {
	t.Parallel()
	url := servers.Postgres(t)
	s := servers.OpenStore(t, url)
	tellGone(t, s)
	exec(t, url, "UPDATE absence SET reported_at = reported_at + interval '1 hour'")
	_, err := recordOne(t, s, reportedAbsent(t, s, time.Now(), false))
	assert.NoError(t, err, "a request that may be newer")
}

func TestAbsencesAreForgotten(t *testing.T) {
	t.Parallel()
	url, ctx := servers.Postgres(t), t.Context()
	s := servers.OpenStore(t, url)
	tellGone(t, s)
	n, err := s.Instances.ForgetAbsences(ctx)
	assert.True(t, n == 0 && err == nil, "forgotten too early: %d, %v", n, err)
	exec(t, url, "UPDATE absence SET reported_at = reported_at - interval '3 hours'")
	_, err = recordOne(t, s, nil)
	assert.NoError(t, err, "hours after the platform was told")
	n, err = s.Instances.ForgetAbsences(ctx)
	assert.True(t, n == 1 && err == nil, "not forgotten: %d, %v", n, err)
}

package store_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/store"
)

// ready records an instance on the shared server "a" that is ready.
func ready(t *testing.T, s *store.Store, id, database string) {
	insertInstance(t, s, store.Instance{ID: id, PlanID: "p", Location: store.SharedLocation("a"), Database: database})
	write(t, s, func(tx *store.Tx) { tx.SetInstanceState(id, store.Ready) })
}

func record(t *testing.T, s *store.Store, changes ...store.UsageChange) {
	require.NoError(t, s.Usage.Record(t.Context(), changes))
}

func sampled(t *testing.T, s *store.Store, id string, since time.Time) (bytes []int64) {
	all, err := s.Usage.History(t.Context(), id, since)
	require.NoError(t, err)
	for _, sample := range all {
		bytes = append(bytes, sample.Bytes)
	}
	return bytes
}

func TestUsage(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_1")
	ready(t, s, "untouched", "db_2")
	_, err := s.Usage.Get(t.Context(), "i")
	assert.ErrorIs(t, err, store.ErrNotFound, "before the first measurement")
	begin := time.Now().Add(-time.Minute)
	record(t, s, store.UsageChange{Database: "db_1", Bytes: 10, Sample: true})
	first, err := s.Usage.Get(t.Context(), "i")
	assert.True(t, err == nil && first.Bytes == 10 && first.OverSince == nil, "%+v, %v", first, err)
	record(t, s, store.UsageChange{Database: "db_1", Bytes: 11, Level: 80})
	record(t, s, store.UsageChange{Database: "db_1", Bytes: 30, Level: 90, Sample: true})
	assert.Equal(t, []int64{10, 30}, sampled(t, s, "i", begin), "samples")
	assert.Equal(t, []int64{30}, sampled(t, s, "i", time.Now().Add(time.Minute)), "samples that hold in a minute")
	assert.Nil(t, sampled(t, s, "untouched", begin), "samples of another instance")
	found, err := s.Usage.OnServer(t.Context(), "a", []string{"db_0", "db_1", "db_2"})
	assert.True(t, err == nil && len(found) == 2 && *found[0].Bytes == 30 && found[0].Level == 90 &&
		found[0].SampledBytes == 30 && found[1].InstanceID == "untouched" && found[1].Bytes == nil, "%+v, %v", found, err)
	found, err = s.Usage.OnServer(t.Context(), "b", []string{"db_1"})
	assert.True(t, err == nil && len(found) == 0, "on another server: %+v, %v", found, err)
	second, err := s.Usage.Get(t.Context(), "i")
	assert.True(t, err == nil && second.MeasuredAt.After(first.MeasuredAt), "%+v, %v", second, err)
	require.NoError(t, s.Usage.RecordMeasurement(t.Context(), "a"))
	third, err := s.Usage.Get(t.Context(), "i")
	assert.True(t, err == nil && third.MeasuredAt.After(second.MeasuredAt),
		"after a measurement that changed nothing: %+v, %v", third, err)
	stats, err := s.Usage.Stats(t.Context(), 1)
	require.NoError(t, err)
	assert.Equal(t, []store.QuotaCount{{PlanID: "p", Level: 90, Count: 1}}, stats.Counts)
	assert.Equal(t, []store.FullInstance{{InstanceID: "i", PlanID: "p", Bytes: 30}}, stats.Fullest)
	exec(t, url, "UPDATE instance SET state = 'delete failed'")
	stats, err = s.Usage.Stats(t.Context(), 1)
	assert.True(t, err == nil && len(stats.Counts)+len(stats.Fullest) == 0, "delete failed: %+v, %v", stats, err)
}

// A new instance with the id of a deleted one does not inherit its storage usage.
func TestUsageIsNotInherited(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_1")
	record(t, s, store.UsageChange{Database: "db_1", Bytes: 10, Level: 100, Sample: true})
	restrict(t, s, "i", true)
	write(t, s, func(tx *store.Tx) { tx.DeleteInstance("i") })
	ready(t, s, "i", "db_2")
	usage, err := s.Usage.Get(t.Context(), "i")
	assert.ErrorIs(t, err, store.ErrNotFound, "%+v", usage)
	i, err := s.Instances.Get(t.Context(), "i")
	assert.True(t, err == nil && i.OverSince == nil, "%+v, %v", i, err)
	assert.Nil(t, sampled(t, s, "i", time.Time{}), "samples")
	record(t, s, store.UsageChange{Database: "db_2", Bytes: 20, Sample: true})
	require.NoError(t, s.Usage.Forget(t.Context(), time.Hour))
	expectRows(t, url, "SELECT database_name FROM storage_usage", "db_2")
	expectRows(t, url, "SELECT database_name FROM storage_sample ORDER BY 1", "db_1", "db_2")
	require.NoError(t, s.Usage.Forget(t.Context(), 0))
	expectRows(t, url, "SELECT database_name FROM storage_sample")
}

// All old samples are deleted and no others, also in several batches.
func TestMuchUsageIsForgotten(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_kept")
	exec(t, url, `INSERT INTO storage_sample SELECT 'db_' || n, now() - '2 hours'::interval, n FROM generate_series(1, 2500) n`,
		`INSERT INTO storage_usage SELECT 'db_' || n, n, now() FROM generate_series(1, 2500) n`)
	record(t, s, store.UsageChange{Database: "db_kept", Bytes: 20, Sample: true})
	require.NoError(t, s.Usage.Forget(t.Context(), time.Hour))
	expectRows(t, url, "SELECT database_name FROM storage_sample", "db_kept")
	expectRows(t, url, "SELECT database_name FROM storage_usage", "db_kept")
}

func TestEachDedicated(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "shared", "db_1")
	for id, server := range map[string]string{"i": "d_1", "j": "d_2"} {
		insertInstance(t, s, store.Instance{ID: id, PlanID: "p", Database: "db_" + id,
			Location: store.DedicatedLocation("process", server)})
	}
	write(t, s, func(tx *store.Tx) { tx.SetInstanceState("i", store.Ready) })
	var found []store.Measured
	require.NoError(t, s.Usage.EachDedicated(t.Context(), func(some []store.Measured) error {
		found = append(found, some...)
		return nil
	}))
	assert.True(t, len(found) == 1 && found[0].InstanceID == "i", "%+v", found)
	unmeasured := func(age time.Duration, want ...string) {
		at, err := s.Usage.Unmeasured(t.Context(), age, 10)
		got := slices.Sorted(maps.Keys(at))
		assert.True(t, err == nil && slices.Equal(got, want),
			"not measured for %v: %v instead of %v, %v", age, got, want, err)
	}
	unmeasured(0, "d_1")
	unmeasured(time.Hour)
	record(t, s, store.UsageChange{Database: "db_i", Bytes: 1})
	exec(t, url, "UPDATE instance SET created_at = now() - '1 day'::interval")
	unmeasured(time.Hour)
	exec(t, url, "UPDATE storage_usage SET measured_at = now() - '2 hours'::interval")
	unmeasured(time.Hour, "d_1")
	unmeasured(3 * time.Hour)
}

func restrict(t *testing.T, s *store.Store, id string, over bool) {
	inTx(t, s, func(tx *store.Tx) error {
		_, err := tx.LockInstance(t.Context(), id)
		tx.SetOver(id, over)
		return err
	})
}

func TestAccountsAreDueUntilTheyAreReconciled(t *testing.T) {
	s, url := fresh(t)
	ready(t, s, "i", "db_1")
	bind := func(id string) {
		insertBinding(t, s, store.Binding{InstanceID: "i", ID: id, Role: "admin", Account: "u_" + id})
	}
	reconcile := func(account string) { write(t, s, func(tx *store.Tx) { tx.SetReconciled(account, true) }) }
	due := func(want ...string) {
		var got []string
		for after := (store.DueAccount{}); ; {
			some, err := s.Bindings.DueAccounts(t.Context(), false, "", after, 1)
			require.NoError(t, err)
			if len(some) == 0 {
				break
			}
			after = some[0]
			got = append(got, after.Account+" "+after.BindingID+" "+after.Role+" "+after.Server)
		}
		assert.True(t, slices.Equal(got, want), "due: %q instead of %q", got, want)
	}
	bind("a")
	bind("b")
	due()
	restrict(t, s, "i", true)
	i, err := s.Instances.Get(t.Context(), "i")
	assert.True(t, err == nil && i.OverSince != nil, "%+v, %v", i, err)
	due("u_a a admin a", "u_b b admin a")
	reconcile("u_a")
	bind("c") // whose account is made as it should be
	due("u_b b admin a")
	retire := func(id string) {
		write(t, s, func(tx *store.Tx) {
			tx.RecordRetiredAccount("i", "u_"+id)
			tx.DeleteBinding("i", id)
		})
	}
	retire("b")
	due("u_b  admin a")
	reconcile("u_b")
	due()
	restrict(t, s, "i", false)
	due("u_a a admin a", "u_b  admin a", "u_c c admin a")
	exec(t, url, "UPDATE binding SET grants_due = false")
	due("u_b  admin a")
	counted := func(want int64) {
		n, err := s.Tasks.DueCount(t.Context())
		assert.True(t, err == nil && n == want, "%d accounts are due instead of %d, %v", n, want, err)
	}
	counted(1)
	retire("a") // whose privileges are as they should be
	due("u_b  admin a")
	exec(t, url, "UPDATE binding SET grants_due = true WHERE account = 'u_c'")
	retire("c")
	due("u_b  admin a", "u_c  admin a")
	some, err := s.Bindings.DueAccounts(t.Context(), true, "", store.DueAccount{}, 10)
	assert.True(t, err == nil && len(some) == 0, "due on dedicated servers: %+v, %v", some, err)
	exec(t, url, "UPDATE instance SET state = 'delete failed'") // whatever becomes of its accounts, it will not be reconciled
	due()
	counted(0)
}

func TestLeaderLeaseHasOneOwner(t *testing.T) {
	s, url := fresh(t)
	const each, hold = time.Hour, time.Minute
	take := func(owner string, want bool, least, most time.Duration) {
		taken, wait, err := s.Leader.Acquire(t.Context(), "work", owner, hold)
		assert.False(t, err != nil || taken != want || !taken && (wait < least || wait > most),
			"%s: %v, wait %v, %v", owner, taken, wait, err)
	}
	take("a", true, 0, 0)
	take("b", false, hold-10*time.Second, hold)
	take("a", false, hold-10*time.Second, hold)
	assert.NoError(t, s.Leader.Renew(t.Context(), "work", "a", hold))
	assert.ErrorIs(t, s.Leader.Renew(t.Context(), "work", "b", hold), store.ErrLeaseLost, "another one's lease")
	exec(t, url, "UPDATE leader_lease SET until = now()")
	take("b", true, 0, 0) // a has died during a run, which does not count
	assert.ErrorIs(t, s.Leader.Release(t.Context(), "work", "a", each, 0), store.ErrLeaseLost, "release of a lease that was lost")
	assert.NoError(t, s.Leader.Release(t.Context(), "work", "b", 0, 0)) // it was broken off
	take("a", true, 0, 0)
	assert.NoError(t, s.Leader.Release(t.Context(), "work", "a", each, 0))
	take("b", false, each-time.Minute, each)
	exec(t, url, "UPDATE leader_lease SET began_at = began_at - '1 hour'::interval")
	take("b", true, 0, 0)
	assert.NoError(t, s.Leader.Release(t.Context(), "work", "b", each, 2*each))
	take("a", false, 2*each-time.Minute, 2*each+time.Minute)
	exec(t, url, "UPDATE leader_lease SET began_at = began_at + '1 day', until = until + '1 day'") // the clock is set back
	take("a", true, 0, 0)
}

// expectRows fails the test unless a query yields these texts.
func expectRows(t *testing.T, url, query string, want ...string) {
	assert.Equal(t, want, texts(t, url, query), query)
}

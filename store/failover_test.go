package store_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"mysql-broker/store"
	"mysql-broker/test/limits"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

// The URL names a primary and a standby.
func TestFailover(t *testing.T) {
	t.Parallel()
	t.Run("synchronous", testSynchronousFailover)
	t.Run("asynchronous", testAsynchronousFailover)
	t.Run("frozen", testFrozenPrimary)
}

// openPair opens a migrated store on a pair.
func openPair(t *testing.T, pair *testdrive.PostgresPair) *store.Store {
	t.Helper()
	if _, err := store.Migrate(t.Context(), pair.URL); err != nil {
		t.Fatal(err)
	}
	return servers.OpenStore(t, pair.URL)
}

// recordTask records a task for an instance of that name.
func recordTask(t *testing.T, s *store.Store, name string) (store.Task, error) {
	t.Helper()
	task := &store.Task{}
	err := s.InTx(t.Context(), func(tx *store.Tx) error {
		task = tx.InsertTask(store.NewTask{InstanceID: name, Kind: store.Update, PlanID: "p", Owner: "me",
			LeaseTTL: time.Minute})
		return nil
	})
	return *task, err
}

func testSynchronousFailover(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, true)
	s := openPair(t, pair)
	var mu sync.Mutex
	acknowledged := map[string]int64{}
	last := time.Now() // acknowledgement
	var worst time.Duration
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for writer := range 4 {
		writers.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				name := fmt.Sprintf("i-%d-%d", writer, n)
				task, err := recordTask(t, s, name)
				if err != nil && !errors.Is(err, store.ErrUnavailable) {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				if err == nil {
					acknowledged[name] = task.ID
					worst, last = max(worst, time.Since(last)), time.Now()
				}
				mu.Unlock()
			}
		})
	}
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged)
	}
	testdrive.Eventually(t, limits.Stuck, "tasks are recorded", func() bool { return count() > 50 })
	pair.Primary.Kill(t)
	pair.Promote(t)
	promoted, since := count(), time.Now()
	testdrive.Eventually(t, limits.Stuck, "tasks are recorded on the new primary", func() bool { return count() > promoted })
	t.Logf("%v after the promotion, tasks are recorded again; the longest pause was %v", time.Since(since), worst)
	testdrive.Eventually(t, limits.Stuck, "more tasks", func() bool { return count() > promoted+50 })
	close(stop)
	writers.Wait()
	for name, id := range acknowledged {
		if task, err := s.Tasks.Get(t.Context(), id); err != nil || task.InstanceID != name {
			t.Errorf("%s of task %d is lost: %+v, %v", name, id, task, err)
		}
	}
	if hold, err := s.Recovery.Hold(t.Context()); err != nil || hold != nil {
		t.Errorf("nothing was lost, but there is a hold: %+v, %v", hold, err)
	}
	if task, err := recordTask(t, s, "last"); err != nil || task.Epoch <= 1<<32 {
		t.Errorf("a lease on the new timeline has the epoch %d, %v", task.Epoch, err)
	}
}

func testAsynchronousFailover(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, false)
	s := openPair(t, pair)
	var told []store.Failover
	s.OnFailover(func(f store.Failover) { told = append(told, f) })
	first, err := recordTask(t, s, "first")
	if err != nil {
		t.Fatal(err)
	}
	awaitOnStandby(t, pair, "first")
	pair.Standby.Kill(t) // what is sent to one that is only frozen is not lost
	lost, err := recordTask(t, s, "lost")
	if err != nil {
		t.Fatal(err)
	}
	pair.Primary.Kill(t)
	pair.Standby.Start(t)
	pair.Promote(t)
	var hold *store.Hold
	testdrive.Eventually(t, limits.Stuck, "the new primary is used", func() bool {
		hold, err = s.Recovery.Hold(t.Context())
		return err == nil
	})
	if hold == nil || !strings.Contains(hold.Reason, fmt.Sprintf("task_%d", lost.ID)) {
		t.Errorf("the hold is %+v", hold)
	}
	if len(told) != 1 || told[0].LostTask != lost.ID || told[0].Timeline != 2 {
		t.Errorf("told: %+v", told)
	}
	if _, err := s.Tasks.Get(t.Context(), first.ID); err != nil {
		t.Errorf("the first task: %v", err)
	}
	if next, err := recordTask(t, s, "next"); err != nil || next.ID <= lost.ID+1_000_000 {
		t.Errorf("the next task is %d after %d, %v", next.ID, lost.ID, err)
	}
	// Even if the id of the lost task had been used again, its worker could not write.
	if err := s.Queue.Progress(t.Context(), held(lost), "a", "…", false); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("the worker of the lost task has written: %v", err)
	}
}

// awaitOnStandby waits until a standby that is asynchronous has the schema, and then the task of an instance.
func awaitOnStandby(t *testing.T, pair *testdrive.PostgresPair, instance string) {
	t.Helper()
	for _, query := range []string{"SELECT FROM pg_class WHERE relname = 'task'",
		"SELECT FROM task WHERE instance_id = '" + instance + "'"} {
		testdrive.Eventually(t, limits.Stuck, "on the standby: "+query, func() bool { return pair.Standby.Has(t, query) })
	}
}

// A primary that comes back after another one was promoted is not used, although it would accept reads and writes.
func testFrozenPrimary(t *testing.T) {
	t.Parallel()
	pair := testdrive.StartPostgresPair(t, false)
	s := openPair(t, pair)
	if _, err := recordTask(t, s, "before"); err != nil {
		t.Fatal(err)
	}
	awaitOnStandby(t, pair, "before")
	pair.Primary.Freeze(t)
	pair.Promote(t)
	testdrive.Eventually(t, limits.Stuck, "the new primary is used", func() bool {
		_, err := recordTask(t, s, "after")
		return err == nil
	})
	pair.Primary.Thaw(t)
	fresh := servers.OpenStore(t, pair.URL)
	for n := range 20 {
		for _, one := range []*store.Store{s, fresh} {
			if _, err := one.Tasks.Latest(t.Context(), "after", "", ""); err != nil {
				t.Errorf("read %d did not come from the new primary: %v", n, err)
			}
		}
	}
	if _, err := recordTask(t, fresh, "by another"); err != nil {
		t.Error(err)
	}
	// A transaction of "after" that was sent to the frozen server, and never acknowledged, is committed there.
	if pair.Primary.Has(t, "SELECT FROM task WHERE instance_id = 'by another'") {
		t.Error("the old primary was used")
	}
}

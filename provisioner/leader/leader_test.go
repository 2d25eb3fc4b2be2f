package leader_test

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/leader"
	"mysql-broker/test/servers"
	"mysql-broker/test/testdrive"
)

func TestMain(m *testing.M) { servers.Main(m) }

// broker is one of several that share a store and do the same work.
type broker struct {
	stop context.CancelFunc
	runs atomic.Int32
}

// start starts a broker's work. The end of the test stops it.
func start(t *testing.T, work leader.Work, do func(context.Context) error) *broker {
	b := &broker{}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	b.stop = func() {
		cancel()
		running.Wait()
	}
	work.Do = func(ctx context.Context) error {
		b.runs.Add(1)
		return do(ctx)
	}
	running.Go(func() { work.Run(ctx) })
	t.Cleanup(b.stop)
	return b
}

func workEvery(t *testing.T, every time.Duration) leader.Work {
	return leader.Work{Store: servers.Store(t), Log: slog.New(slog.DiscardHandler), Lease: "work", What: "work", Every: every}
}

func TestOneBrokerAtATime(t *testing.T) {
	t.Parallel()
	work := workEvery(t, time.Millisecond)
	var at, runs atomic.Int32
	do := func(context.Context) error {
		assert.True(t, at.Add(1) <= 1, "two brokers are at it")
		time.Sleep(time.Millisecond)
		at.Add(-1)
		runs.Add(1)
		return nil
	}
	brokers := []*broker{start(t, work, do), start(t, work, do), start(t, work, do)}
	testdrive.Eventually(t, "the work is done", func() bool { return runs.Load() > 20 })
	last := slices.MinFunc(brokers, func(a, b *broker) int { return cmp.Compare(a.runs.Load(), b.runs.Load()) })
	before := last.runs.Load()
	for _, b := range brokers {
		if b != last {
			b.stop()
		}
	}
	// It may have found another one at it, and then asks again when that one's lease would have run out.
	testdrive.Eventually(t, "the last broker goes on", func() bool { return last.runs.Load() > before+3 })
}

// If a broker stops during a run, another one takes the run over at once, however long the interval is.
func TestNextBrokerGoesOnAtOnce(t *testing.T) {
	t.Parallel()
	work := workEvery(t, time.Hour)
	first := start(t, work, func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	})
	testdrive.Eventually(t, "the first broker leads", func() bool { return first.runs.Load() == 1 })
	first.stop()
	second := start(t, work, func(context.Context) error { return nil })
	testdrive.Eventually(t, "the second broker leads", func() bool { return second.runs.Load() == 1 })
}

// A run that failed is repeated soon, however long the interval is.
func TestFailedRunIsRepeatedSoon(t *testing.T) {
	t.Parallel()
	work := workEvery(t, time.Hour)
	b := start(t, work, func(context.Context) error { return errors.New("refused") })
	testdrive.Eventually(t, "the run is repeated", func() bool { return b.runs.Load() > 1 })
}

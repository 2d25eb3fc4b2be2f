package httpapi

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	someone     = netip.MustParseAddr("192.0.2.1")
	someoneElse = netip.MustParseAddr("192.0.2.2")
	start       = time.Now()
)

func TestFailedLoginsAreLimited(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	for i := range failuresAtOnce {
		wait, last := f.admit(someone, false, start)
		require.True(t, wait <= 0 && last == (i == failuresAtOnce-1), "failure %d: wait %v, last %t", i+1, wait, last)
	}
	// Refused logins do not put off the time when the next one is admitted, be they right or wrong.
	for _, right := range []bool{false, true, false} {
		wait, _ := f.admit(someone, right, start)
		assert.Equal(t, failureInterval, wait, "right %t: wait", right)
		wait, _ = f.admit(someone, right, start.Add(failureInterval-time.Second))
		assert.Equal(t, time.Second, wait, "right %t, 1 s before the end: wait", right)
		wait, _ = f.admit(someoneElse, true, start)
		assert.EqualValues(t, 0, wait, "another source waits")
	}
	later := start.Add(failureInterval)
	wait, _ := f.admit(someone, true, later)
	assert.Zero(t, wait, "the right password")
	wait, last := f.admit(someone, false, later)
	assert.True(t, wait == 0 && last, "one more failure: wait %v, last %t", wait, last)
	wait, _ = f.admit(someone, true, later)
	assert.Equal(t, failureInterval, wait, "after one more failure: wait")
}

// In a whole day, a client gets only the guesses at the beginning and one in each interval.
func TestGuessesInADay(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	guesses := 0
	const day = 24 * time.Hour
	for at := time.Duration(0); at < day; at += 100 * time.Millisecond {
		if wait, _ := f.admit(someone, false, start.Add(at)); wait == 0 {
			guesses++
		}
		if at%time.Minute == 0 {
			f.admit(someoneElse, false, start.Add(at)) // the generations turn
		}
	}
	assert.Equal(t, failuresAtOnce+int(day/failureInterval)-1, guesses, "%d guesses", guesses)
}

func TestGuessesAtTheSameTime(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	var admitted atomic.Int32
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if wait, _ := f.admit(someone, false, start); wait == 0 {
				admitted.Add(1)
			}
		})
	}
	all.Wait()
	n := admitted.Load()
	assert.True(t, n == failuresAtOnce, "%d guesses were admitted, want %d", n, failuresAtOnce)
}

func TestSourcesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	source := netip.MustParseAddr("10.0.0.1")
	for range 5 * maxSources {
		f.admit(source, false, start)
		source = source.Next()
	}
	n := len(f.recent) + len(f.older)
	assert.True(t, n <= 2*maxSources, "%d sources are remembered", n)
	assert.Len(t, f.older, maxSources, "%d sources are remembered from before, want %d", len(f.older), maxSources)
	f.admit(someone, false, start.Add(failuresAtOnce*failureInterval+1))
	f.admit(someone, false, start.Add(3*failuresAtOnce*failureInterval))
	n = len(f.recent) + len(f.older)
	assert.Equal(t, 2, n, "%d sources are remembered when all is forgiven", n)
	f.admit(someoneElse, true, start)
	_, remembered := f.recent[someoneElse]
	assert.False(t, remembered, "a source that has not failed is remembered")
}

package httpapi

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
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
		if wait > 0 || last != (i == failuresAtOnce-1) {
			t.Fatalf("failure %d: wait %v, last %t", i+1, wait, last)
		}
	}
	// Refused logins do not put off the time when the next one is admitted, be they right or wrong.
	for _, right := range []bool{false, true, false} {
		if wait, _ := f.admit(someone, right, start); wait != failureInterval {
			t.Errorf("right %t: wait %v, want %v", right, wait, failureInterval)
		}
		if wait, _ := f.admit(someone, right, start.Add(failureInterval-time.Second)); wait != time.Second {
			t.Errorf("right %t, 1 s before the end: wait %v", right, wait)
		}
		if wait, _ := f.admit(someoneElse, true, start); wait != 0 {
			t.Errorf("another source waits %v", wait)
		}
	}
	later := start.Add(failureInterval)
	if wait, _ := f.admit(someone, true, later); wait != 0 {
		t.Errorf("the right password: wait %v", wait)
	}
	if wait, last := f.admit(someone, false, later); wait != 0 || !last {
		t.Errorf("one more failure: wait %v, last %t", wait, last)
	}
	if wait, _ := f.admit(someone, true, later); wait != failureInterval {
		t.Errorf("after one more failure: wait %v", wait)
	}
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
	if want := failuresAtOnce + int(day/failureInterval) - 1; guesses != want {
		t.Errorf("%d guesses, want %d", guesses, want)
	}
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
	if n := admitted.Load(); n != failuresAtOnce {
		t.Errorf("%d guesses were admitted, want %d", n, failuresAtOnce)
	}
}

func TestSourcesTakeBoundedMemory(t *testing.T) {
	t.Parallel()
	f := &failedLogins{}
	source := netip.MustParseAddr("10.0.0.1")
	for range 5 * maxSources {
		f.admit(source, false, start)
		source = source.Next()
	}
	if n := len(f.recent) + len(f.older); n > 2*maxSources {
		t.Errorf("%d sources are remembered", n)
	}
	if len(f.older) != maxSources {
		t.Errorf("%d sources are remembered from before, want %d", len(f.older), maxSources)
	}
	f.admit(someone, false, start.Add(failuresAtOnce*failureInterval+1))
	f.admit(someone, false, start.Add(3*failuresAtOnce*failureInterval))
	if n := len(f.recent) + len(f.older); n != 2 {
		t.Errorf("%d sources are remembered when all is forgiven", n)
	}
	f.admit(someoneElse, true, start)
	if _, remembered := f.recent[someoneElse]; remembered {
		t.Error("a source that has not failed is remembered")
	}
}

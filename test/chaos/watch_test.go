package chaos

import (
	"strings"
	"sync"
	"time"

	"mysql-broker/test/testdrive"
)

// watch hears of the points that every broker passes, and does to each what its order says.
type watch struct {
	mu       sync.Mutex
	orders   map[int]func(point string) testdrive.Word  // by process id
	everyone func(pid int, point string) testdrive.Word // for brokers without an order of their own
}

func newWatch(faults *testdrive.Faults) *watch {
	w := &watch{orders: map[int]func(string) testdrive.Word{}}
	faults.Decide(func(pid int, point string) testdrive.Word {
		w.mu.Lock()
		order, everyone := w.orders[pid], w.everyone
		w.mu.Unlock()
		switch {
		case order != nil:
			return order(point)
		case everyone != nil:
			return everyone(pid, point)
		}
		return testdrive.GoOn
	})
	return w
}

// order says what happens to a broker from now on; it may be called for several points at once. nil lets it go on.
func (w *watch) order(b *testdrive.Broker, decide func(point string) testdrive.Word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.orders[b.PID()] = decide
}

// orderAll says what happens to every broker that has no order of its own, from now on.
func (w *watch) orderAll(decide func(pid int, point string) testdrive.Word) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.everyone = decide
}

// point is one that a workflow passes: the nth of that name.
type point struct {
	name string
	nth  int
}

// journey follows one broker through its points, up to the one at which it dies or is paused, if any.
type journey struct {
	mu     sync.Mutex
	end    point
	pauses bool                  // the broker, instead of ending it
	stop   func() testdrive.Word // ends or pauses the broker
	seen   []point
	killed chan time.Time // yields when it died or was paused
	ended  chan struct{}  // closed at the last point of a task that succeeded
	finish func()
}

func newJourney(end point, pauses bool, stop func() testdrive.Word) *journey {
	ended := make(chan struct{})
	return &journey{end: end, pauses: pauses, stop: stop, killed: make(chan time.Time, 1), ended: ended,
		finish: sync.OnceFunc(func() { close(ended) })}
}

func (j *journey) pass(name string) testdrive.Word {
	j.mu.Lock()
	defer j.mu.Unlock()
	select {
	case <-j.ended: // it works on something else by now
		return testdrive.GoOn
	default:
	}
	if strings.HasSuffix(name, ": KILL ?") { // whether there are sessions to kill is up to chance
		return testdrive.GoOn
	}
	here := point{name, 1}
	for _, before := range j.seen {
		if before.name == name {
			here.nth++
		}
	}
	locks := locksServer(j.seen)
	j.seen = append(j.seen, here)
	locks = locks && locksServer(j.seen) // it is free where a call begins and where it is done
	word := testdrive.GoOn
	if here == j.end && !(j.pauses && locks) {
		word = j.stop()
		j.killed <- time.Now()
	}
	if strings.HasSuffix(name, ": ended as succeeded") {
		j.finish()
	}
	return word
}

// locksServer reports whether a broker that passed these points may hold the lock of a server's directory, maybe for a
// task that it took over from another broker. Were it paused, all others would wait until it goes on.
func locksServer(passed []point) bool {
	calls := 0
	for _, p := range passed {
		for _, step := range []string{"launch", "resize", "suspend", "destroy"} {
			switch {
			case strings.HasSuffix(p.name, ": "+step+": begins"):
				calls++
			case strings.HasSuffix(p.name, ": "+step+": done"):
				calls--
			}
		}
	}
	return calls > 0
}

func (j *journey) points() []point {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]point(nil), j.seen...)
}

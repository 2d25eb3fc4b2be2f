package chaos

import (
	"sync"

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

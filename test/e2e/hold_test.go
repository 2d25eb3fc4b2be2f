package e2e

import (
	"sync"
	"testing"

	"mysql-broker/test/testdrive"
)

// holdAt holds brokers that come to a point until release is called, and closes at when the first has come there.
func holdAt(t *testing.T, f *testdrive.Faults, point string) (at <-chan struct{}, release func()) {
	t.Helper()
	g := newGate(t, point)
	f.Decide(func(_ int, at string) testdrive.Word {
		g.pass(at)
		return testdrive.GoOn
	})
	return g.reached, g.release
}

// gate keeps brokers at a point until release.
type gate struct {
	point   string
	once    sync.Once
	reached chan struct{}
	free    chan struct{}
	release func()
}

func newGate(t *testing.T, point string) *gate {
	t.Helper()
	g := &gate{point: point, reached: make(chan struct{}), free: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.free) })
	t.Cleanup(g.release)
	return g
}

// pass returns at once for a point other than its own.
func (g *gate) pass(point string) {
	if point == g.point {
		g.once.Do(func() { close(g.reached) })
		<-g.free
	}
}

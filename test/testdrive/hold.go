package testdrive

import (
	"sync"
	"sync/atomic"
	"testing"
)

// HoldAt holds brokers that come to a point until release is called, and closes at when the first has come there.
func HoldAt(t *testing.T, f *Faults, point string) (at <-chan struct{}, release func()) {
	t.Helper()
	g := NewGate(t, point)
	f.Decide(func(_ int, at string) Word {
		g.Pass(at)
		return GoOn
	})
	return g.Reached, g.Release
}

// Gate keeps brokers at a point until release.
type Gate struct {
	point   string
	once    sync.Once
	Reached chan struct{}
	free    chan struct{}
	Release func()
}

func NewGate(t *testing.T, point string) *Gate {
	t.Helper()
	g := &Gate{point: point, Reached: make(chan struct{}), free: make(chan struct{})}
	g.Release = sync.OnceFunc(func() { close(g.free) })
	t.Cleanup(g.Release)
	return g
}

// Pass returns at once for a point other than its own.
func (g *Gate) Pass(point string) {
	if point == g.point {
		g.once.Do(func() { close(g.Reached) })
		<-g.free
	}
}

// DieAt kills the broker when it reaches a point for the nth time.
func DieAt(at string, n int32) func(int, string) Word {
	var reached atomic.Int32
	return func(_ int, point string) Word {
		if point == at && reached.Add(1) == n {
			return Die
		}
		return GoOn
	}
}

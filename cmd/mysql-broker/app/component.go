package app

import (
	"context"
	"slices"
	"sync/atomic"
	"time"
)

// component is a part of the broker.
type component struct {
	name string
	// start returns how to stop what it has started, even if it fails. A part that is not configured starts nothing.
	start func(context.Context) (ending, error)
}

// ending stops a component. Its functions may be nil.
type ending struct {
	name  string
	leave func() // begins to stop, without waiting; all components leave before the first one stops
	stop  func() // returns when the component has stopped
	last  func() // runs when all components have stopped, or their time is over
}

// Time limits of a stop. Cloud Foundry kills the process 10 seconds after SIGTERM.
const (
	drainTime = 7 * time.Second                   // for running requests
	closeTime = drainTime + 1500*time.Millisecond // for those and all other work
	flushTime = time.Second                       // then, to send traces
)

// Close lets running requests finish, hands tasks over to other brokers and disconnects. Dedicated servers keep
// running. Components that cannot stop in time, for example because PostgreSQL does not respond, end with the process.
// That loses nothing, because leases expire by themselves.
func (a *App) Close() {
	late := time.After(closeTime)
	for _, end := range slices.Backward(a.endings) {
		call(end.leave)
	}
	var stopping atomic.Value
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for _, end := range slices.Backward(a.endings) {
			stopping.Store(end.name)
			call(end.stop)
		}
	}()
	select {
	case <-stopped:
	case <-late:
		a.log.Warn("not everything stopped in time; the rest ends with the process", "component", stopping.Load())
	}
	for _, end := range slices.Backward(a.endings) {
		call(end.last)
	}
}

func call(fn func()) {
	if fn != nil {
		fn()
	}
}

// background runs fn until the component stops, and then waits for it.
func background(fn func(context.Context)) ending {
	ctx, cancel := context.WithCancel(context.Background()) // #nosec G118 -- the ending calls it
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	return ending{leave: cancel, stop: func() { <-done }}
}

// closing stops a component with a slow function, which runs while requests finish.
func closing(fn func()) ending {
	done := make(chan struct{})
	return ending{leave: func() {
		go func() {
			defer close(done)
			fn()
		}()
	}, stop: func() { <-done }}
}

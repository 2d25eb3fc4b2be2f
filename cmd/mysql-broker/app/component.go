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
	// start returns how to end what it started, also where it fails. A part that is not configured starts nothing.
	start func(context.Context) (ending, error)
}

// ending is how a component ends. Functions may be nil.
type ending struct {
	name  string
	leave func() // begins the end without waiting for it; all components leave before the first one stops
	stop  func() // returns once the component does nothing any more
	last  func() // runs when all components have stopped, or have had the time for it
}

// What the end takes at most. Cloud Foundry kills 10 seconds after SIGTERM.
const (
	drainTime = 7 * time.Second                   // for requests under way
	closeTime = drainTime + 1500*time.Millisecond // for those, and all else that is under way
	flushTime = time.Second                       // then, for traces to be sent
)

// Close lets requests under way finish, hands tasks over to other brokers and disconnects. Dedicated servers go on
// running. What cannot be ended in time, because PostgreSQL does not answer for example, is left to end with the
// process, which loses nothing: leases run out by themselves.
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
		a.log.Warn("not everything could be ended in time; what is left ends with the process", "component", stopping.Load())
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

// background runs fn until the component ends, and then waits for it.
func background(fn func(context.Context)) ending {
	ctx, cancel := context.WithCancel(context.Background()) // #nosec G118 -- the ending calls it
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn(ctx)
	}()
	return ending{leave: cancel, stop: func() { <-done }}
}

// closing ends a component by a function that takes its time, while requests under way finish.
func closing(fn func()) ending {
	done := make(chan struct{})
	return ending{leave: func() {
		go func() {
			defer close(done)
			fn()
		}()
	}, stop: func() { <-done }}
}

package testdrive

import (
	"testing"
	"time"
)

// receiveTime is what a test that waits for something waits at most, on a busy machine.
const receiveTime = time.Minute

// Receive returns what comes out of a channel, or its zero value once that is closed. The test ends where nothing does
// within a minute; what says what was expected.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(receiveTime):
		t.Fatalf("%s: not within %v", what, receiveTime)
		panic("not reached")
	}
}

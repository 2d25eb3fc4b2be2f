package testdrive

import (
	"testing"
	"time"
)

// receiveTime limits how long a test waits for something, on a busy machine.
const receiveTime = time.Minute

// Receive returns the next value of a channel, or the zero value if it is closed. It fails the test if nothing arrives
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

package testdrive

import (
	"testing"
	"time"

	"mysql-broker/test/limits"
)

// Receive returns the next value of a channel, or the zero value if it is closed. It fails the test if nothing arrives;
// what says what was expected.
func Receive[T any](t testing.TB, ch <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(limits.Stuck):
		t.Fatalf("%s: not within %v", what, limits.Stuck)
		panic("not reached")
	}
}

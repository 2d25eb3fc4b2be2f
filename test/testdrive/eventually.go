package testdrive

import (
	"testing"
	"time"
)

// Eventually waits until condition holds, and fails the test if it does not within limit. what says what is awaited.
func Eventually(t testing.TB, limit time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for deadline := time.Now().Add(limit); ; {
		if condition() {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v", what, limit)
		}
		<-tick.C
	}
}

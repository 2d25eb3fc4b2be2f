package testdrive

import (
	"testing"
	"time"
)

// Patience is how long tests wait for what a busy machine does in seconds. Only a test that fails waits to its end.
const Patience = 4 * time.Minute

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

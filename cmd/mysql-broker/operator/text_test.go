package operator

import (
	"testing"
	"time"
)

// TestAgo describes past, present and future times.
func TestAgo(t *testing.T) {
	t.Parallel()
	for passed, want := range map[time.Duration]string{
		90 * time.Minute:              "90 min ago",
		2500 * time.Millisecond:       "2 s ago",
		0:                             "just now",
		-500 * time.Millisecond:       "just now",
		-(49*time.Hour + time.Second): "in 2 d",
	} {
		if got := ago(time.Now().Add(-passed)); got != want {
			t.Errorf("after %v: %q instead of %q", passed, got, want)
		}
	}
}

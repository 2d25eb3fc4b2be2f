package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
		assert.Equal(t, want, ago(time.Now().Add(-passed)), "after %v", passed)
	}
}

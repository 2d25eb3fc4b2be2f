package limits

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// recorder records whether a test failed.
type recorder struct {
	testing.TB
	said   string
	failed bool
}

func (r *recorder) Helper()                 {}
func (r *recorder) Logf(f string, a ...any) { r.said = fmt.Sprintf(f, a...) }
func (r *recorder) Error(a ...any)          { r.said, r.failed = fmt.Sprint(a...), true }

func TestPrompt(t *testing.T) {
	present, err := stalled()
	if err != nil {
		t.Skip(err) // a kernel without accounting: nothing is asserted there
	}
	const hour = time.Hour
	for _, c := range []struct {
		name    string
		long    string
		stalled time.Duration // in the last hour
		took    time.Duration
		says    bool
		fails   bool
	}{
		{"in time", "1", 0, time.Second, false, false},
		{"late on a calm machine", "1", 0, 3 * time.Second, true, true},
		{"late on a busy machine", "1", hour / 2, 3 * time.Second, true, false},
		{"late in a short run", "", 0, 3 * time.Second, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(LongVar, c.long)
			r := &recorder{TB: t}
			i := Interval{began: time.Now().Add(-hour), stalled: present - c.stalled, known: true}
			i.Prompt(r, "it", c.took, 2*time.Second)
			assert.True(t, r.failed == c.fails && (r.said != "") == c.says, "failed: %v, said %q", r.failed, r.said)
		})
	}
}

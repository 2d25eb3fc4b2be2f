package limits

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// failure records whether a test failed.
type failure struct {
	testing.TB
	failed bool
}

func (f *failure) Error(...any) { f.failed = true }

func TestPromptFailsLateTestsOnACalmMachine(t *testing.T) {
	now, err := stalled()
	if err != nil {
		t.Skip(err) // a kernel without accounting: nothing is asserted there
	}
	t.Setenv(LongVar, "1")
	late := &failure{TB: t}
	Interval{began: time.Now().Add(-time.Hour), stalled: now, known: true}.Prompt(late, "it", 3*time.Second, 2*time.Second)
	assert.True(t, late.failed)
}

package operator

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestMoment(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for text, want := range map[string]time.Time{
		"0s":                   now,
		"90m":                  now.Add(-90 * time.Minute),
		"3d":                   now.AddDate(0, 0, -3),
		"2026-01-31":           time.Date(2026, 1, 31, 0, 0, 0, 0, time.Local),
		"2026-01-31T12:30":     time.Date(2026, 1, 31, 12, 30, 0, 0, time.Local),
		"2026-01-31T12:30:01Z": time.Date(2026, 1, 31, 12, 30, 1, 0, time.UTC),
	} {
		var m moment
		if err := m.Set(text); err != nil || time.Time(m).Sub(want).Abs() > time.Minute {
			t.Errorf("%q is %v, %v", text, time.Time(m), err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "3dd", "-1h", "soon", "2026-13-01"} {
		var m moment
		if err := m.Set(text); err == nil {
			t.Errorf("%q is %v", text, time.Time(m))
		}
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	var value string
	c := choice{&value, []string{"in progress", "failed"}}
	for _, typed := range []string{"in progress", "in-progress"} {
		err := c.Set(typed)
		assert.True(t, err == nil && value == "in progress", "%q is %q, %v", typed, value, err)
	}
	assert.Error(t, c.Set("inprogress"), "anything is taken")
}

package operator

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
		var m time.Time
		assert.NoError(t, moment(&m).Set(text), "%q", text)
		assert.WithinDuration(t, want, m, time.Minute, "%q", text)
	}
	for _, text := range []string{"", "d", "-1d", "99999999999d", "1.5d", "3dd", "-1h", "soon", "2026-13-01"} {
		assert.Error(t, moment(new(time.Time)).Set(text), "%q", text)
	}
}

// A script whose variable is not set must not change everything.
func TestNoFlagIsEmpty(t *testing.T) {
	t.Parallel()
	checked := 0
	var check func(commands []*cobra.Command)
	check = func(commands []*cobra.Command) {
		for _, c := range commands {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				checked++
				assert.Error(t, f.Value.Set(""), "%s takes an empty --%s", c.CommandPath(), f.Name)
			})
			check(c.Commands())
		}
	}
	check(Commands())
	assert.Greater(t, checked, 20)
	var named []string
	without := givenList(&named)
	assert.NoError(t, without.Set("a,b"))
	assert.NoError(t, without.Set("c"))
	assert.Equal(t, []string{"a", "b", "c"}, named)
	assert.Error(t, without.Set("d,,e"))
}

func TestChoice(t *testing.T) {
	t.Parallel()
	var value string
	c, _ := choice(&value, "in progress", "failed")
	for _, typed := range []string{"in progress", "in-progress"} {
		err := c.Set(typed)
		assert.True(t, err == nil && value == "in progress", "%q is %q, %v", typed, value, err)
	}
	assert.Error(t, c.Set("inprogress"), "anything is taken")
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args, answer, says string
		done               bool
	}{
		{"a b", "y\n", "a replaces b. Go on? [y/N] ", true},
		{"a b", " YES \n", "", true},
		{"--yes a b", "", "", true},
		{"a b", "", "nothing was changed", false},
		{"a b", "\n", "", false},
		{"a b", "yess\n", "", false},
		{"a \x1b", "n\n", `"\x1b"`, false},
	} {
		done := false
		var out strings.Builder
		command := &cobra.Command{Use: "destroy A B", SilenceUsage: true, RunE: func(*cobra.Command, []string) error {
			done = true
			return nil
		}}
		confirm(command, "%s replaces %s.")
		command.SetArgs(strings.Fields(test.args))
		command.SetIn(strings.NewReader(test.answer))
		command.SetOut(&out)
		command.SetErr(&out)
		err := command.Execute()
		assert.True(t, done == test.done && (err == nil) == test.done && strings.Contains(out.String(), test.says),
			"%q, %q: done: %t, %v: %s", test.args, test.answer, done, err, out.String())
	}
}

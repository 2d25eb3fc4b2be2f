package operator

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

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
		if done != test.done || (err == nil) != test.done || !strings.Contains(out.String(), test.says) {
			t.Errorf("%q, %q: done: %t, %v: %s", test.args, test.answer, done, err, out.String())
		}
	}
}

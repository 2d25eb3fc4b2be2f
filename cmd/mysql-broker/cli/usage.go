package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// rawUsage has the beginnings of what Cobra says of wrong arguments and flags.
var rawUsage = []string{"accepts ", "requires at least ", "at least one of the flags ", "if any flags in the group "}

// UsageError returns an error with how to use the command instead of one of Cobra's about its arguments.
func UsageError(command *cobra.Command, err error) error {
	text := err.Error()
	raw := func(beginning string) bool { return strings.HasPrefix(text, beginning) }
	if slices.ContainsFunc(rawUsage, raw) || !command.HasSubCommands() && raw("unknown command ") {
		return fmt.Errorf("use it as: %s", command.UseLine())
	}
	return err
}

func Exactly(n int) cobra.PositionalArgs { return Between(n, n) }

// Between refuses too many and too few arguments, and empty ones, which a script passes if a variable is not set.
func Between(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min || len(args) > max || slices.Contains(args, "") {
			return fmt.Errorf("use it as: %s", cmd.UseLine())
		}
		return nil
	}
}

// FlagError returns an error that says what a flag's value must be, instead of the message of the library that read it.
func FlagError(_ *cobra.Command, err error) error {
	wrong, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	must := map[string]string{"bool": "true or false", "int": "a whole number", "uint": "a whole number, 0 or more",
		"duration": "a duration such as 90s or 2h"}[wrong.GetFlag().Value.Type()]
	says := "must be " + must
	if must == "" { // our own flags say it themselves
		says = errors.Unwrap(wrong).Error()
		if !strings.HasPrefix(says, "must be ") {
			return err
		}
	}
	return fmt.Errorf("--%s %s, not %q", wrong.GetFlag().Name, says, wrong.GetValue())
}

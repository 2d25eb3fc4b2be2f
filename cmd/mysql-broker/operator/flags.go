package operator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// given is a flag with a text. It is empty by default, which selects everything; typed, it must not be: a script whose
// variable is not set would change more than it means to.
type given string

func (g *given) String() string { return "" } // the default, for the help
func (g *given) Type() string   { return "string" }

func (g *given) Set(text string) error {
	if text == "" {
		return errors.New("must be a name or an id")
	}
	*g = given(text)
	return nil
}

// givenList is given, any number of times, or separated by commas.
type givenList []string

func (g *givenList) String() string { return "" } // the default, for the help
func (g *givenList) Type() string   { return "strings" }

func (g *givenList) Set(text string) error {
	all := strings.Split(text, ",")
	if slices.Contains(all, "") {
		return errors.New("must be a name or an id")
	}
	*g = append(*g, all...)
	return nil
}

// choice is a flag with a fixed set of values, "" by default. Users can type hyphens for spaces in a value.
type choice struct {
	value   *string
	allowed []string
}

func (c *choice) String() string { return "" } // the default, for the help
func (c *choice) Type() string   { return "value" }

func (c *choice) typed() []string {
	typed := make([]string, len(c.allowed))
	for i, value := range c.allowed {
		typed[i] = strings.ReplaceAll(value, " ", "-")
	}
	return typed
}

func (c *choice) Set(text string) error {
	i := slices.Index(c.typed(), strings.ReplaceAll(text, " ", "-"))
	if i < 0 {
		return fmt.Errorf("must be one of %s", strings.Join(c.typed(), ", "))
	}
	*c.value = c.allowed[i]
	return nil
}

// moment is a flag with a time or an age. It is zero by default.
type moment time.Time

func (m *moment) String() string { return "" } // the default, for the help
func (m *moment) Type() string   { return "when" }

func (m *moment) Set(text string) error {
	t, err := parseMoment(text)
	*m = moment(t)
	return err
}

// oldest is an age in days of which PostgreSQL knows the time.
const oldest = 365_000

func parseMoment(text string) (time.Time, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && 0 <= n && n <= oldest {
			return time.Now().AddDate(0, 0, -n), nil
		}
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return time.Now().Add(-ago), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.Local); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New("must be an age such as 90m or 3d, or a time such as 2026-01-31 or " +
		"2026-01-31T12:00:00Z")
}

func atMost(n int) cobra.PositionalArgs { return arguments(0, n) }

func exactly(n int) cobra.PositionalArgs { return arguments(n, n) }

// arguments refuses too many and too few arguments, and empty ones, which a script passes if a variable is not set.
func arguments(min, max int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < min || len(args) > max || slices.Contains(args, "") {
			return fmt.Errorf("use it as: %s", cmd.UseLine())
		}
		return nil
	}
}

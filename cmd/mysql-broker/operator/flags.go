package operator

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// flag is the value of a flag. It is unset by default.
type flag struct {
	kind string // for the help
	set  func(string) error
}

func (f flag) String() string { return "" } // the default, for the help

func (f flag) Type() string { return f.kind }

func (f flag) Set(text string) error { return f.set(text) }

var errEmpty = errors.New("must be a name or an id")

// given is a flag with a text. It is empty by default, which selects everything; typed, it must not be: a script whose
// variable is not set would change more than it means to.
func given(to *string) flag {
	return flag{"string", func(text string) error {
		if text == "" {
			return errEmpty
		}
		*to = text
		return nil
	}}
}

// givenList is given, any number of times, or separated by commas.
func givenList(to *[]string) flag {
	return flag{"strings", func(text string) error {
		all := strings.Split(text, ",")
		if slices.Contains(all, "") {
			return errEmpty
		}
		*to = append(*to, all...)
		return nil
	}}
}

// choice is a flag with a fixed set of values. Users can type hyphens for spaces in a value; typed has them all so.
func choice(to *string, allowed ...string) (f flag, typed string) {
	var names []string
	for _, value := range allowed {
		names = append(names, strings.ReplaceAll(value, " ", "-"))
	}
	typed = strings.Join(names, ", ")
	return flag{"value", func(text string) error {
		i := slices.Index(names, strings.ReplaceAll(text, " ", "-"))
		if i < 0 {
			return fmt.Errorf("must be one of %s", typed)
		}
		*to = allowed[i]
		return nil
	}}, typed
}

// moment is a flag with a time or an age.
func moment(to *time.Time) flag {
	return flag{"when", func(text string) (err error) {
		*to, err = parseMoment(text)
		return err
	}}
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

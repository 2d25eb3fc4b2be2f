package operator

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// printable replaces characters that would break a table, such as line breaks in a platform's ids.
func printable(s string) string {
	if s == "" {
		return "-"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// age returns text for people, in the largest unit that gives at least 2.
func age(seconds int64) string {
	d := time.Duration(seconds) * time.Second
	for _, unit := range []struct {
		length time.Duration
		name   string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "min"}} {
		if d >= 2*unit.length {
			return strconv.Itoa(int(d/unit.length)) + " " + unit.name
		}
	}
	if d == 0 {
		return "-"
	}
	return strconv.Itoa(int(d/time.Second)) + " s"
}

// since returns text for people: the time passed, by this machine's clock.
func since(t time.Time) string { return age(int64(max(time.Since(t), 0).Seconds())) }

// ago returns text for people: how long ago a time was, or how far ahead it is.
func ago(t time.Time) string {
	switch passed := time.Since(t); {
	case passed <= -time.Second:
		return "in " + age(int64(-passed.Seconds()))
	case passed < time.Second:
		return "just now"
	}
	return since(t) + " ago"
}

// at returns text for people: the time, and how far it is from now.
func at(t time.Time) string { return rfc3339(t) + " (" + ago(t) + ")" }

func rfc3339(t time.Time) string { return t.Format(time.RFC3339) }

// ifSet returns the text about a time, "" if there is none.
func ifSet(t *time.Time, text func(time.Time) string) string {
	if t == nil {
		return ""
	}
	return text(*t)
}

// named returns text for people: a name, if there is one, and an id.
func named(name, id string) string {
	if name == "" || id == "" {
		return cmp.Or(name, id)
	}
	return name + " (" + id + ")"
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// number is "" for 0, which means not known.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

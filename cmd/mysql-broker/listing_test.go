package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestTableAligns(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := startListing(&out, true, false, 0, "name", "state")
	must(t, l.add(nil, "größer", ""))
	for range alignAtOnce {
		must(t, l.add(nil, "a", "b\nc"))
	}
	if out.Len() == 0 {
		t.Error("all rows are kept in memory")
	}
	must(t, l.end(nil))
	lines := strings.Split(out.String(), "\n")
	if len(lines) != alignAtOnce+3 || lines[0] != "name     state" || lines[1] != "größer   -" ||
		lines[2] != `a        "b\nc"` || lines[alignAtOnce+1] != `a   "b\nc"` {
		t.Errorf("%q and %q", lines[:3], lines[alignAtOnce+1:])
	}
}

func TestListsInJSON(t *testing.T) {
	t.Parallel()
	failed := errors.New("PostgreSQL went away")
	for rows, want := range []string{"[]\n", "[\n{\"n\":0}\n]\n", "[\n{\"n\":0},\n{\"n\":1}\n]\n"} {
		var out strings.Builder
		l := newListing(&out, true, 0, "n")
		for n := range rows {
			must(t, l.add(map[string]int{"n": n}, fmt.Sprint(n)))
		}
		must(t, l.end(nil))
		if out.String() != want {
			t.Errorf("%d rows: %q", rows, &out)
		}
	}
	var out strings.Builder
	l := newListing(&out, true, 0, "n")
	must(t, l.add(1, "1"))
	if err := l.end(failed); err != failed && !errors.Is(err, failed) || strings.Contains(out.String(), "]") {
		t.Errorf("after an error: %v, %q", err, &out)
	}
}

func TestListIsCutShort(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	l := newListing(&out, false, 2, "n")
	must(t, l.add(nil, "1"))
	if err := l.add(nil, "2"); err != errEnough {
		t.Errorf("after as many rows as were asked for: %v", err)
	}
	must(t, l.end(errEnough))
	if out.String() != "n\n1\n2\n" {
		t.Errorf("%q", &out)
	}
}

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
		if err := m.Set(text); err != nil || m.Sub(want).Abs() > time.Minute {
			t.Errorf("%q is %v, %v", text, m, err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "1.5d", "3dd", "-1h", "soon", "2026-13-01"} {
		var m moment
		if err := m.Set(text); err == nil {
			t.Errorf("%q is %v", text, m)
		}
	}
}

func TestChoice(t *testing.T) {
	t.Parallel()
	c := choice{allowed: []string{"in progress", "failed"}}
	for _, typed := range []string{"in progress", "in-progress"} {
		if err := c.Set(typed); err != nil || c.value != "in progress" {
			t.Errorf("%q is %q, %v", typed, c.value, err)
		}
	}
	if err := c.Set("inprogress"); err == nil {
		t.Error("anything is taken")
	}
}

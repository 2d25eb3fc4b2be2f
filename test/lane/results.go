package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// result is a line of the file of results.
type result struct {
	Suite   string    `json:"suite"`
	Passed  bool      `json:"passed"`
	At      time.Time `json:"at"`
	Commit  string    `json:"commit"`
	Seconds int       `json:"seconds"`
	CPU     int       `json:"cpu_seconds"`
	Load    int       `json:"load,omitempty"`    // processes beside it that did nothing but use a processor
	Failure string    `json:"failure,omitempty"` // the first test that failed
}

// results is a file with one JSON object a line, which is committed. Lines are only added.
type results struct{ path string }

func (r results) all() (all []result, err error) {
	text, err := os.ReadFile(r.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var one result
		if err := json.Unmarshal(line, &one); err != nil {
			return nil, fmt.Errorf("%s: %w", r.path, err)
		}
		all = append(all, one)
	}
	return all, err
}

func (r results) add(one result) error {
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// last returns the last result of each suite, and when each passed last.
func last(all []result) (latest map[string]result, passed map[string]result) {
	latest, passed = map[string]result{}, map[string]result{}
	for _, one := range all {
		latest[one.Suite] = one
		if one.Passed {
			passed[one.Suite] = one
		}
	}
	return latest, passed
}

// failing are the suites whose last result is a failure.
func (r results) failing() (names []string, err error) {
	all, err := r.all()
	latest, _ := last(all)
	for _, s := range suites {
		if one, ran := latest[s.name]; ran && !one.Passed {
			names = append(names, s.name)
		}
	}
	return names, err
}

// byNeed returns the suites in the order in which they should run: those that never passed first, then the one that
// passed longest ago.
func byNeed(suites []suite, all []result) []suite {
	_, passed := last(all)
	sorted := slices.Clone(suites)
	slices.SortStableFunc(sorted, func(a, b suite) int { return passed[a.name].At.Compare(passed[b.name].At) })
	return sorted
}

// report prints when each suite of the lane long passed last, and how many commits have changed what it tests since.
func (r results) report(ctx context.Context, w io.Writer) error {
	all, err := r.all()
	if err != nil {
		return err
	}
	latest, passed := last(all)
	fmt.Fprintln(w, "\nSuites of make test-long, and when they passed last:")
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, s := range suites {
		one, ever := passed[s.name]
		line := "never"
		if ever {
			line = fmt.Sprintf("%s\t%s changes since\t%d s\t%d s of processors", one.At.Format(time.DateOnly),
				changes(ctx, one.Commit, s.tests), one.Seconds, one.CPU)
		}
		if now, ran := latest[s.name]; ran && !now.Passed {
			line += "\tFAILED since: " + now.Failure
		}
		fmt.Fprintf(table, "  %s\t%s\n", s.name, line)
	}
	return table.Flush()
}

// changes counts the commits after that one that touch any of the paths.
func changes(ctx context.Context, commit string, paths []string) string {
	args := append([]string{"rev-list", "--count", commit + "..HEAD", "--", ":(top)test/testdrive"}, fromTop(paths)...)
	out, err := exec.CommandContext(ctx, "git", args...).Output()
	if err != nil {
		return "unknown" // the history may have been cut off
	}
	return strings.TrimSpace(string(out))
}

// fromTop makes paths, and those with ":!" before them that are left out, relative to the top of the work tree.
func fromTop(paths []string) (specs []string) {
	for _, path := range paths {
		if out, excluded := strings.CutPrefix(path, ":!"); excluded {
			specs = append(specs, ":(top,exclude)"+out)
			continue
		}
		specs = append(specs, ":(top)"+strings.TrimPrefix(path, "./"))
	}
	return specs
}

func head(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	return strings.TrimSpace(string(out)), err
}

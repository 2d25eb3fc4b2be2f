// Package limits has the time limits of tests: one for all waits, and none for how fast something is unless the machine
// is calm.
package limits

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// Stuck bounds every wait of a test. A busy machine may take a hundred times as long as an idle one; only a test that
// fails waits to the end.
const Stuck = 10 * time.Minute

// LongVar is the environment variable that, set to 1, lets tests fail because something took too long.
const LongVar = "LONG"

// mostStalled is the share of an interval for which some process waits for a processor on a calm machine, at most.
const mostStalled = 0.2

// Interval is time in which something should be done promptly.
type Interval struct {
	began   time.Time
	stalled time.Duration
	known   bool // whether the kernel accounts for what waits
}

// Watch begins an interval.
func Watch() Interval {
	stalled, err := stalled()
	return Interval{began: time.Now(), stalled: stalled, known: err == nil}
}

// Prompt ends an interval in which something took that long, but should take no longer than promised. It fails the test
// only if $LONG is 1 and the machine was calm from Watch until now; otherwise it logs what it would fail on.
func (i Interval) Prompt(t testing.TB, what string, took, promised time.Duration) {
	t.Helper()
	if took <= promised {
		return
	}
	late := fmt.Sprintf("%s: took %v, longer than %v", what, took.Round(time.Millisecond), promised)
	share, known := i.stalledShare()
	switch {
	case !known:
		t.Logf("%s, on a machine whose load is unknown", late)
	case share >= mostStalled:
		t.Logf("%s, on a busy machine: processes waited for a processor for %.0f %% of the time", late, 100*share)
	case os.Getenv(LongVar) != "1":
		t.Logf("%s, on a calm machine: with %s=1 the test would fail", late, LongVar)
	default:
		t.Error(late)
	}
}

// Done is Prompt for what took from Watch until now.
func (i Interval) Done(t testing.TB, what string, promised time.Duration) {
	i.Prompt(t, what, time.Since(i.began), promised)
}

func (i Interval) stalledShare() (share float64, known bool) {
	now, err := stalled()
	if err != nil || !i.known {
		return 0, false
	}
	return float64(now-i.stalled) / float64(max(time.Since(i.began), time.Millisecond)), true
}

// stalled is for how long, since the machine's start, some process waited for a processor.
// https://docs.kernel.org/accounting/psi.html
func stalled() (time.Duration, error) {
	text, err := os.ReadFile("/proc/pressure/cpu")
	if err != nil {
		return 0, err
	}
	some, _, _ := strings.Cut(string(text), "\n")
	_, total, _ := strings.Cut(some, "total=")
	return time.ParseDuration(total + "us")
}

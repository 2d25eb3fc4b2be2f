package periodic_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/periodic"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		schedule periodic.Schedule
		takes    time.Duration // each run
		want     []time.Duration
	}{
		{"at once, then every interval", periodic.Schedule{Every: 10 * time.Second}, time.Second,
			[]time.Duration{0, 10 * time.Second, 20 * time.Second}},
		{"after a delay", periodic.Schedule{Every: 10 * time.Second, Delay: 3 * time.Second}, 0,
			[]time.Duration{3 * time.Second, 13 * time.Second, 23 * time.Second}},
		{"a long run is followed at once", periodic.Schedule{Every: 10 * time.Second}, 12 * time.Second,
			[]time.Duration{0, 12 * time.Second, 24 * time.Second}},
		{"a long run is followed by a rest", periodic.Schedule{Every: 10 * time.Second, Rest: 10}, 2 * time.Second,
			[]time.Duration{0, 22 * time.Second, 44 * time.Second}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				start := time.Now()
				var starts []time.Duration
				periodic.Run(ctx, tt.schedule, &periodic.Status{}, func(context.Context) error {
					starts = append(starts, time.Since(start))
					time.Sleep(tt.takes)
					if len(starts) == len(tt.want) {
						cancel()
					}
					return nil
				})
				assert.Equal(t, tt.want, starts, "when runs started")
			})
		})
	}
}

func TestRunEndsInAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		periodic.Run(ctx, periodic.Schedule{Every: time.Hour}, &periodic.Status{}, func(context.Context) error { return nil })
		assert.Equal(t, time.Minute, time.Since(start), "ended after")
	})
}

func TestStatus(t *testing.T) {
	t.Parallel()
	refused, reset := errors.New("refused"), errors.New("reset")
	outcomes := []error{nil, refused, refused, reset, nil, nil, reset}
	const working = "INFO renewal works again"
	for _, tt := range []struct {
		name   string
		status periodic.Status
		want   []string
	}{
		{"once each", periodic.Status{},
			[]string{"WARN renewal failed; retrying error=refused", working, "WARN renewal failed; retrying error=reset"}},
		{"each error", periodic.Status{EachError: true, Level: slog.LevelError, Meanwhile: "the old one is used"},
			[]string{"ERROR renewal failed; retrying; meanwhile the old one is used error=refused",
				"ERROR renewal failed; retrying; meanwhile the old one is used error=reset", working,
				"ERROR renewal failed; retrying; meanwhile the old one is used error=reset"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			status := tt.status
			status.What, status.Log = "renewal", slog.New(slog.NewTextHandler(&log, nil))
			for _, err := range outcomes {
				status.Report(t.Context(), err)
			}
			assert.Equal(t, tt.want, lines(&log))
		})
	}
}

// Each server fails and recovers by itself.
func TestServers(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	all := periodic.Servers{Status: periodic.Status{What: "a look", Log: slog.New(slog.NewTextHandler(&log, nil))}}
	refused := errors.New("refused")
	for _, run := range []struct {
		server string
		err    error
	}{{"a", refused}, {"b", nil}, {"b", refused}, {"a", refused}, {"a", nil}, {"b", refused}, {"a", refused}} {
		all.Report(t.Context(), run.server, run.err)
	}
	want := []string{"WARN a look failed; retrying server=a error=refused",
		"WARN a look failed; retrying server=b error=refused", "INFO a look works again server=a",
		"WARN a look failed; retrying server=a error=refused"}
	assert.Equal(t, want, lines(&log))
}

// Work that is interrupted by the end of its context has not failed.
func TestStatusIgnoresInterruption(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	status := periodic.Status{What: "renewal", Log: slog.New(slog.NewTextHandler(&log, nil))}
	status.Report(ctx, ctx.Err())
	assert.True(t, log.Len() <= 0, "logged %s", &log)
}

// lines returns the lines of a text log, without times and names.
func lines(log *bytes.Buffer) (all []string) {
	for line := range strings.Lines(log.String()) {
		_, line, _ = strings.Cut(strings.TrimSpace(line), "level=")
		all = append(all, strings.NewReplacer("msg=", "", `"`, "").Replace(line))
	}
	return all
}

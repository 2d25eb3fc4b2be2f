package app

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/store"
)

// https://docs.cloudfoundry.org/devguide/deploy-apps/app-lifecycle.html#shutdown
func TestEndBeforeCloudFoundryKills(t *testing.T) {
	t.Parallel()
	const killed = 10 * time.Second // after SIGTERM
	longest := closeTime + flushTime
	assert.True(t, drainTime < closeTime && longest < killed,
		"requests are waited for %v, and the end takes up to %v", drainTime, longest)
}

// ends records how components end.
type ends struct {
	mu    sync.Mutex
	steps []string
}

func (e *ends) note(step string) func() {
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.steps = append(e.steps, step)
	}
}

func (e *ends) expect(t *testing.T, want ...string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	assert.True(t, slices.Equal(e.steps, want), "ended by %q, want %q", e.steps, want)
}

func TestComponentsStopInReverseOrder(t *testing.T) {
	t.Parallel()
	var e ends
	a := &App{log: slog.New(slog.DiscardHandler), endings: []ending{
		{name: "traces", last: e.note("traces sent")},
		{name: "store", stop: e.note("store closed")},
		{name: "not configured"},
		{name: "tasks", leave: e.note("tasks handed over"), stop: e.note("tasks stopped")},
		{name: "server", leave: e.note("server leaves"), stop: e.note("server drained")},
	}}
	a.Close()
	e.expect(t, "server leaves", "tasks handed over", "server drained", "tasks stopped", "store closed", "traces sent")
}

// A component that does not stop in time is named in the log, and does not delay responses.
func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e ends
		var log bytes.Buffer
		hangs := make(chan struct{})
		a := &App{log: slog.New(slog.NewTextHandler(&log, nil)), endings: []ending{
			{name: "traces", last: e.note("traces sent")},
			{name: "store", stop: e.note("store closed")},
			{name: "tasks", stop: func() { <-hangs }},
		}}
		start := time.Now()
		a.Close()
		assert.Equal(t, closeTime, time.Since(start), "the end took")
		e.expect(t, "traces sent")
		assert.True(t, strings.Contains(log.String(), "component=tasks"), "the log does not say what hangs: %s", &log)
		close(hangs)
		synctest.Wait()
	})
}

// Background work ends with its component, and begins to close before the component does.
func TestBackground(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var e ends
		running := background(func(ctx context.Context) {
			<-ctx.Done()
			e.note("background ended")()
		})
		guard := closing(e.note("guard closed"))
		synctest.Wait()
		e.expect(t)
		guard.leave()
		synctest.Wait()
		e.expect(t, "guard closed")
		running.leave()
		running.stop()
		guard.stop()
		e.expect(t, "guard closed", "background ended")
	})
}

// Records are deleted without an order of an operator, so the log says when.
func TestExaminationsTellOfDeletedRecords(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := &examinations{log: slog.New(slog.NewTextHandler(&log, nil))}
	e.record(doctor.Report{})
	assert.True(t, log.Len() <= 0, "with none deleted, the log has %q", &log)
	e.record(doctor.Report{Forgotten: 3})
	line := log.String()
	assert.True(t, strings.Contains(line, "level=INFO") && strings.Contains(line, "count=3"),
		"with 3 deleted, the log has %q", line)
}

// Findings are counted by kind and server, and each is logged once. What another broker may have made is not.
func TestExaminationsTellOfFindings(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	e := &examinations{log: slog.New(slog.NewTextHandler(&log, nil))}
	for range 2 {
		e.record(doctor.Report{Reachable: []string{"a", store.DedicatedServers}, Findings: []doctor.Finding{
			{Problem: doctor.Orphan, Kind: store.DatabaseResource, Server: "a", Name: "left"},
			{Problem: doctor.Missing, Kind: store.AccountResource, Server: "a", Name: "dropped"},
			{Problem: doctor.Kept, Kind: store.DedicatedResource, Server: store.DedicatedServers, Name: "failed"},
			{Problem: doctor.Unrecorded, Kind: store.AccountResource, Server: "a", Name: "foreign"}}})
	}
	for name, want := range map[string]int{"left": 1, "dropped": 1, "failed": 1, "foreign": 0} {
		assert.Equal(t, want, strings.Count(log.String(), "name="+name), "%s in the log", name)
	}
	got := gathered(t, prometheus.CollectorFunc(e.collect))
	delete(got, "mysql_broker_examination_timestamp_seconds")
	assert.Equal(t, map[string]float64{"mysql_broker_orphans database a": 1, "mysql_broker_orphans account a": 0,
		"mysql_broker_missing_resources database a": 0, "mysql_broker_missing_resources account a": 1,
		"mysql_broker_kept_resources database a": 0, "mysql_broker_orphans dedicated_server ": 0,
		"mysql_broker_missing_resources dedicated_server ": 0, "mysql_broker_kept_resources dedicated_server ": 1}, got)
}

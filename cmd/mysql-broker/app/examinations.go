package app

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/store"
)

const (
	firstExamination = 10 * time.Second // after the start, which is busy enough
	examineInterval  = 10 * time.Minute
	// examineRest is the shortest pause after an examination, as a multiple of its duration.
	examineRest = 10
)

// examinations runs the doctor at intervals, logs new findings, and counts all findings in /metrics. It repairs
// nothing.
type examinations struct {
	doctor *doctor.Doctor
	log    *slog.Logger
	latest atomic.Pointer[examination] // nil before the first
}

type examination struct {
	findings  []doctor.Finding
	found     map[doctor.Finding]bool
	counts    map[finding]int
	reachable []string
	at        time.Time
}

// finding has the labels of a finding in the metrics.
type finding struct {
	problem      doctor.Problem
	kind, server string
}

func (e *examinations) run(ctx context.Context) {
	periodic.Run(ctx, periodic.Schedule{Delay: firstExamination, Every: examineInterval, Rest: examineRest},
		&periodic.Status{What: "comparing the servers with what is recorded", Log: e.log},
		func(ctx context.Context) error {
			report, err := e.doctor.ExamineAndForget(ctx)
			if err == nil {
				e.record(report)
			}
			return err
		})
}

// record logs the number of deleted records, and the findings that are new since the last examination. It does not log
// unrecorded objects: if brokers share a server, each sees the objects of the others appear and disappear.
func (e *examinations) record(report doctor.Report) {
	now := &examination{findings: report.Findings, found: map[doctor.Finding]bool{}, counts: map[finding]int{},
		reachable: report.Reachable, at: time.Now()}
	for _, f := range report.Findings {
		now.found[f.Identity()] = true
		now.counts[finding{f.Problem, f.Kind, f.Server}]++
	}
	before := e.latest.Swap(now)
	if report.Forgotten > 0 {
		e.log.Info("deleted old records of deleted objects", "count", report.Forgotten)
	}
	for _, f := range report.Findings {
		if f.Problem == doctor.Unrecorded || before != nil && before.found[f.Identity()] {
			continue
		}
		e.log.Warn("found "+string(f.Problem)+" "+f.Kind+"; `mysql-broker doctor` shows more", "server", f.Server,
			"name", f.Name, "instance_id", f.InstanceID, "binding_id", f.BindingID, "age", f.Age.Round(time.Second).String(),
			"to_do", f.ToDo)
	}
}

// findings returns the findings and the time of the last examination; zero before the first.
func (e *examinations) findings() ([]doctor.Finding, time.Time) {
	latest := e.latest.Load()
	if latest == nil {
		return nil, time.Time{}
	}
	return latest.findings, latest.at
}

var (
	orphansDesc = desc("mysql_broker_orphans", "What the broker created and nothing needs any more, but still exists; "+
		"server is empty for dedicated servers; a server that does not answer has no series.", "kind", "server")
	missingDesc = desc("mysql_broker_missing_resources", "What should exist and does not; labels as for "+
		"mysql_broker_orphans.", "kind", "server")
	keptDesc = desc("mysql_broker_kept_resources", "What exists although its creation failed, because it held data or "+
		"could not be removed; labels as for mysql_broker_orphans.", "kind", "server")
	examinedDesc = desc("mysql_broker_examination_timestamp_seconds", "When this process last looked for orphans and "+
		"missing resources, in seconds since 1970.")
)

// collect sends nothing before the first examination.
func (e *examinations) collect(ch chan<- prometheus.Metric) {
	latest := e.latest.Load()
	if latest == nil {
		return
	}
	gauge(ch, examinedDesc, float64(latest.at.UnixMilli())/1000)
	for _, server := range latest.reachable {
		kinds := []string{store.DatabaseResource, store.AccountResource}
		if server == store.DedicatedServers {
			kinds = []string{store.DedicatedResource}
		}
		for _, kind := range kinds {
			label := strings.ReplaceAll(kind, " ", "_")
			gauge(ch, orphansDesc, float64(latest.counts[finding{doctor.Orphan, kind, server}]), label, server)
			gauge(ch, missingDesc, float64(latest.counts[finding{doctor.Missing, kind, server}]), label, server)
			if kind != store.AccountResource {
				gauge(ch, keptDesc, float64(latest.counts[finding{doctor.Kept, kind, server}]), label, server)
			}
		}
	}
}

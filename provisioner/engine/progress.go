package engine

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/task"
)

// ReportProgress returns a function that reports progress in a sentence, at once and then once a second, and
// passes a fault point.
func (e *Engine) ReportProgress(ctx context.Context, run *task.Run, point string,
	sentence func(done, total uint64) string) func(done, total uint64) {
	var reported time.Time
	return func(done, total uint64) {
		fault.Point(run.Task.Kind, point)
		if time.Since(reported) < time.Second {
			return
		}
		reported = time.Now()
		if err := run.ReportDone(ctx, sentence(min(done, total), total), point, done); err != nil {
			e.Log.Warn("could not record the progress of a task", "task", task.Token(run.Task.ID), "error", err)
		}
	}
}

// Percent returns the sentence for work in progress. It says how much is done, in per cent.
func Percent(doing string) func(done, total uint64) string {
	return func(done, total uint64) string { return fmt.Sprintf("%s: %d %% done", doing, done*100/max(total, 1)) }
}

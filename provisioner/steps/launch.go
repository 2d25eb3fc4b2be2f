package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// LaunchTimeout bounds an attempt to launch, resize or remove a server. The launchers have shorter limits for the parts
// of an attempt.
const LaunchTimeout = time.Hour

// Launch is the step that starts the dedicated server of a new instance.
func (ss *Servers) Launch(i store.Instance) task.Step {
	return task.Step{Name: "launch", Progress: "Launching the server", Timeout: LaunchTimeout,
		Do: ss.WithLauncher(i.PlanID, "Delete the service instance and create it again later, or choose a shared plan.",
			func(ctx context.Context, size fleet.Size, report, _ func(string)) error {
				return ss.Fleet.Launch(ctx, i, size, report)
			})}
}

// Resize is the step that gives a dedicated server the size of a plan. If one of the plans keeps no binary logs, the
// archive of the instance ends: the server may run without them for a while, even if this step or a later one fails.
// The archiver may begin another archive until the server stops, so it is ended before and after that.
func (ss *Servers) Resize(i store.Instance, fromID, toID string) task.Step {
	endArchive := func(ctx context.Context) error {
		if ss.Plans.Get(fromID).ArchiveLogs && ss.Plans.Get(toID).ArchiveLogs {
			return nil
		}
		if err := ss.Store.Logs.EndOf(ctx, i.ID, "the server may have run without binary logs"); err != nil {
			return fmt.Errorf("end the archive of binary logs: %w", err)
		}
		return nil
	}
	return task.Step{Name: "resize", Progress: "Resizing the server", Timeout: LaunchTimeout,
		Do: ss.WithLauncher(toID, "The service instance keeps its plan.",
			func(ctx context.Context, size fleet.Size, report, _ func(string)) error {
				if err := endArchive(ctx); err != nil {
					return err
				}
				return errors.Join(ss.Fleet.Resize(ctx, i, size, report), endArchive(ctx))
			})}
}

// launcherCall calls a launcher. report gets what begins, works what goes on.
type launcherCall func(ctx context.Context, size fleet.Size, report, works func(string)) error

// WithLauncher returns the Do function of a step that calls a launcher with the server size of a plan. Users see what
// the launcher reports. As long as it calls works, nobody takes the task for stuck. advice is what a user can do if the
// launcher gives up.
func (ss *Servers) WithLauncher(planID, advice string, call launcherCall) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		plan, err := ss.Plan(planID)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		unlessLost := func(record func(context.Context, string) error) func(string) {
			return func(sentence string) {
				if err := errors.Join(run.Alive(), record(ctx, sentence)); err != nil {
					cancel(err) // the lease is lost, for example
				}
			}
		}
		err = call(ctx, size(plan), unlessLost(run.Report), unlessLost(run.ReportWork))
		if err != nil && ctx.Err() != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		return LaunchError(run.Task, err, advice)
	}
}

func size(p plan.Plan) fleet.Size {
	return fleet.Size{MemoryMB: p.MemoryMB, MilliCPU: p.MilliCPU, StorageMB: p.MaxStorageMB,
		Placement: p.Placement, BinaryLogs: p.ArchiveLogs, Flavour: p.Flavour, Version: p.Version}
}

// LaunchError translates a launcher's error into one that says what the task does next.
func LaunchError(t store.Task, err error, advice string) error {
	known, ok := errors.AsType[*launcher.Error](err)
	if !ok {
		return err
	}
	switch known.Action {
	case launcher.Wait:
		return task.Pending(known.After, known.Sentence)
	case launcher.GiveUp:
		return engine.Fail(t, engine.LauncherRefused, err, known.Sentence, advice)
	}
	if known.Sentence == "" {
		return err
	}
	return engine.Fail(t, engine.LauncherFailed, err, known.Sentence)
}

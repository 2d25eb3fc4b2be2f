package process

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// Resize implements launcher.Launcher.
func (l *Launcher) Resize(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explainNoRoom(err) }()
	sd, st, unlock, err := l.locked(ctx, spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	defer unlock()
	if st, err = l.run.abandonUpgrade(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	if st.Phase == phaseSuspended {
		return launcher.Endpoint{}, launcher.ErrNotFound
	}
	if st.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: cannot resize what was not launched", sd.id)
	}
	if st, err = l.applyLimits(ctx, sd, st, spec, report); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("resize", "limits recorded")
	report("Starting mysqld")
	if err := l.run.ensureUp(ctx, sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	report("Checking the admin account")
	return l.answerFor(ctx, sd, st, spec)
}

// applyLimits stops the server and records the spec's limits, unless it has them already. The server is stopped first:
// otherwise a crash could leave it running with limits that differ from the recorded ones. It goes on running if only
// its storage changes, which is recorded and not enforced.
func (l *Launcher) applyLimits(ctx context.Context, sd serverDir, st state, spec launcher.Spec,
	report func(progress string)) (state, error) {
	if st.MemoryMB == spec.MemoryMB && st.BinaryLogs == spec.BinaryLogs {
		if st.StorageMB == spec.StorageMB {
			return st, nil
		}
		st.limit(spec)
		return st, sd.saveState(st)
	}
	report("Stopping mysqld")
	if err := l.run.stopIfRunning(ctx, sd, func(s *server, ctx context.Context) error {
		if err := roomToStart(sd.dir, st, spec.MemoryMB); err != nil {
			return err
		}
		return s.stop(ctx)
	}); err != nil {
		return state{}, err
	}
	fault.Point("resize", "stopped")
	st.limit(spec)
	return st, sd.saveState(st)
}

// Suspend implements launcher.Launcher. The phase is recorded first, so that the supervision does not start the server
// again.
func (l *Launcher) Suspend(ctx context.Context, id string) error {
	sd, err := l.run.place.server(id)
	if err != nil {
		return err
	}
	unlock, err := sd.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	st, err := sd.loadState()
	if err != nil {
		return err
	}
	if st, err = l.run.abandonUpgrade(ctx, sd, st); err != nil {
		return err
	}
	switch st.Phase {
	case phaseReady:
		st.Phase = phaseSuspended
		if err := sd.saveState(st); err != nil {
			return explainNoRoom(err)
		}
		fault.Point("suspend", "recorded")
	case phaseSuspended:
	default:
		return fmt.Errorf("server %s: it is %s: %w", id, st.Phase, launcher.ErrNotFound)
	}
	if err := l.run.stopIfRunning(ctx, sd, (*server).stop); err != nil {
		return err
	}
	fault.Point("suspend", "stopped")
	if err := l.run.groups.Remove(ctx, id); err != nil {
		l.run.cfg.Logger.Warn("a control group is left behind", "error", err)
	}
	if st.Port == 0 {
		return nil
	}
	st.Port = 0 // for other servers, once nobody listens there
	return sd.saveState(st)
}

// resume makes a suspended server ready to be started, with a port and the spec's limits. The caller holds its lock.
func (l *Launcher) resume(ctx context.Context, sd serverDir, st *state, spec launcher.Spec) error {
	if err := l.run.stopIfRunning(ctx, sd, (*server).stop); err != nil { // a Suspend may have been cut off
		return err
	}
	if err := roomToStart(sd.dir, *st, spec.MemoryMB); err != nil {
		return err
	}
	st.limit(spec)
	if err := l.choosePort(ctx, sd, st, 0); err != nil {
		return err
	}
	fault.Point("launch", "resumed")
	st.Phase = phaseReady
	return sd.saveState(*st)
}

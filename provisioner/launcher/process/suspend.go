package process

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// Suspend implements launcher.Launcher. The phase is recorded first, so that the supervision does not start the server
// again.
func (l *Launcher) Suspend(ctx context.Context, id string) error {
	sd, err := l.serverDir(id)
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
	if st, err = l.abandonUpgrade(ctx, sd, st); err != nil {
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
	if err := l.stopIfRunning(ctx, sd, (*server).stop); err != nil {
		return err
	}
	fault.Point("suspend", "stopped")
	if err := l.groups.removeGroup(ctx, id); err != nil {
		l.cfg.Logger.Warn("a control group is left behind", "error", err)
	}
	if st.Port == 0 {
		return nil
	}
	st.Port = 0 // for other servers, once nobody listens there
	return sd.saveState(st)
}

// resume makes a suspended server ready to be started, with a port and the spec's limits. The caller holds its lock.
func (l *Launcher) resume(ctx context.Context, sd serverDir, st *state, spec launcher.Spec) error {
	if err := l.stopIfRunning(ctx, sd, (*server).stop); err != nil { // a Suspend may have been cut off
		return err
	}
	if err := roomToStart(sd.dir, *st, spec.MemoryMB); err != nil {
		return err
	}
	st.MemoryMB, st.StorageMB, st.Labels = spec.MemoryMB, spec.StorageMB, spec.Labels
	st.BinaryLogs = spec.BinaryLogs
	if err := l.choosePort(ctx, sd, st, 0); err != nil {
		return err
	}
	fault.Point("launch", "resumed")
	st.Phase = phaseReady
	return sd.saveState(*st)
}

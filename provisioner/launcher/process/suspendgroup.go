package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// suspendMembers stops the members of a group that is recorded as suspended: the primary last, which then has all
// transactions.
func (l *Launcher) suspendMembers(ctx context.Context, sd serverDir, st *state) error {
	all := l.lookAtMembers(ctx, sd, state{Phase: phaseReady, Group: st.Group})
	slices.SortStableFunc(all, func(a, b memberLook) int { return rank(a) - rank(b) })
	for _, m := range all {
		if err := l.suspendMember(ctx, m.dir); err != nil {
			return err
		}
		fault.Point("suspend", "member stopped")
	}
	clear(st.Group.Ports) // for other servers
	clear(st.Group.ProtocolPorts)
	return sd.saveState(*st)
}

func rank(m memberLook) int {
	if m.Primary {
		return 1
	}
	return 0
}

func (l *Launcher) suspendMember(ctx context.Context, m serverDir) error {
	unlock, err := lockDir(ctx, m.dir)
	if errors.Is(err, fs.ErrNotExist) { // its files are lost
		return l.stopIfRunning(ctx, m, (*server).stop)
	}
	if err != nil {
		return err
	}
	defer unlock()
	own, err := m.loadState()
	if err != nil && !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	if found := err == nil; found && own.Phase == phaseReady {
		own.Phase = phaseSuspended
		if err := m.saveState(own); err != nil {
			return explainNoRoom(err)
		}
	}
	if err := l.stopMember(ctx, m, own); err != nil {
		return err
	}
	if err := l.groups.removeGroup(ctx, m.id); err != nil {
		l.cfg.Logger.Warn("a control group is left behind", "error", err)
	}
	if own.Port == 0 {
		return nil
	}
	own.Port, own.ProtocolPort, own.TransferPort = 0, 0, 0
	return m.saveState(own)
}

// stopMember stops a member that is not restarted at once. The caller holds its lock.
func (l *Launcher) stopMember(ctx context.Context, m serverDir, own state) error {
	return l.stopIfRunning(ctx, m, func(s *server, ctx context.Context) error {
		if own.Group != nil && !own.inGalera() {
			err := l.onMember(ctx, m, func(c memberConn) error { return mysqlgroup.StopEvents(c.ctx, c.conn) })
			if err != nil && !s.exited() {
				l.cfg.Logger.Warn("a member that stops may still run events", "server", m.id, "error", err)
			}
		}
		return s.stop(ctx)
	})
}

// resumeGroup makes a suspended group ready to be started, with other ports and the spec's limits. The members are
// ready once the ports of all are recorded with the group; a member whose files are lost is replaced later. The caller
// holds the lock of the group.
func (l *Launcher) resumeGroup(ctx context.Context, sd serverDir, st *state, spec launcher.Spec) error {
	for n := range st.Group.Ports { // a Suspend may have been cut off
		if err := l.suspendMember(ctx, sd.member(n+1)); err != nil {
			return err
		}
	}
	if err := roomToStart(sd.dir, *st, spec.MemoryMB); err != nil {
		return err
	}
	st.MemoryMB, st.StorageMB, st.Labels = spec.MemoryMB, spec.StorageMB, spec.Labels
	clear(st.Group.Ports)
	clear(st.Group.ProtocolPorts)
	for n := range st.Group.Ports {
		own, err := l.choosePorts(ctx, sd.member(n+1), *st)
		if err != nil {
			return err
		}
		st.Group.Ports[n], st.Group.ProtocolPorts[n] = own.Port, own.ProtocolPort
	}
	fault.Point("launch", "resumed")
	for n := range st.Group.Ports {
		m := sd.member(n + 1)
		own, err := m.loadState()
		if err != nil {
			return err
		}
		if _, err := os.Lstat(m.dataDir()); errors.Is(err, fs.ErrNotExist) {
			if err := removeIfThere(m.stateFile()); err != nil {
				return fmt.Errorf("server %s: %w", m.id, err)
			}
			continue
		}
		own.Phase, own.Group = phaseReady, st.Group
		own.MemoryMB, own.StorageMB, own.Labels = st.MemoryMB, st.StorageMB, st.Labels
		if err := m.saveState(own); err != nil {
			return err
		}
	}
	st.Phase = phaseReady
	return sd.saveState(*st)
}

// choosePorts chooses and records the ports of a member that has none.
func (l *Launcher) choosePorts(ctx context.Context, m serverDir, of state) (own state, err error) {
	if err := os.Mkdir(m.dir, traversable); err != nil && !errors.Is(err, fs.ErrExist) {
		return own, fmt.Errorf("server %s: %w", m.id, err)
	}
	own, err = m.loadState()
	if errors.Is(err, launcher.ErrNotFound) {
		own, err = of, nil
	}
	if err != nil {
		return own, err
	}
	if err := l.chooseProtocolPort(ctx, m, &own); err != nil {
		return own, err
	}
	if err := l.chooseTransferPort(ctx, m, &own); err != nil {
		return own, err
	}
	return own, l.choosePort(ctx, m, &own, 0)
}

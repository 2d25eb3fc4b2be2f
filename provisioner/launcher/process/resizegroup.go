package process

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
)

// resizeGroup is Resize for a group. The size is recorded first, so that a member which is replaced meanwhile has it.
func (l *Launcher) resizeGroup(ctx context.Context, sd serverDir, st state, spec launcher.Spec,
	report func(string)) (launcher.Endpoint, error) {
	if st.Phase != phaseReady {
		return launcher.Endpoint{}, fmt.Errorf("server %s: cannot resize what was not launched", sd.id)
	}
	if spec.Members != len(st.Group.Ports) {
		return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp,
			Sentence: "The number of servers cannot be changed.",
			Err:      fmt.Errorf("server %s: it has %d members, and %d are wanted", sd.id, len(st.Group.Ports), spec.Members)}
	}
	st.MemoryMB, st.StorageMB, st.Labels = spec.MemoryMB, spec.StorageMB, spec.Labels
	if err := sd.saveState(st); err != nil {
		return launcher.Endpoint{}, err
	}
	if err := l.roll(ctx, sd, st, rolling{doing: "Restarting server %d of %d", limit: l.startTimeout, switches: true,
		due: func(own state) bool { return own.MemoryMB != spec.MemoryMB },
		change: func(own *state) {
			own.MemoryMB, own.StorageMB, own.Labels = spec.MemoryMB, spec.StorageMB, spec.Labels
		}}, report); err != nil {
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", sd.id, err)
	}
	return l.endpoint(sd, st)
}

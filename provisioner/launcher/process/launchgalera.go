package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// launchGalera starts the first member of a group from an empty data directory. The others are prepared, and join when
// assembleGalera starts them.
func (l *Launcher) launchGalera(ctx context.Context, sd serverDir, st state, spec launcher.Spec,
	program mysqld.Binary, starting func()) error {
	for n := 1; n <= len(st.Group.Ports); n++ {
		if err := l.prepareMember(ctx, sd, st, n, program); err != nil {
			return err
		}
	}
	m := sd.member(1)
	own, err := m.loadState()
	if err != nil {
		return err
	}
	password, err := m.groupPassword()
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	accounts := slices.Concat(mysqld.AdminSQL(spec.AdminUser, spec.AdminPassword),
		mysqld.GroupSQL(mysqld.MariaDB, password))
	if err := l.owner.writeSecret(m.initFile(), accounts); err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	if err := l.startAndAwait(ctx, m, own, starting, "--init-file="+m.initFile(), newCluster); err != nil {
		return err
	}
	return os.Remove(m.initFile())
}

// prepareMember makes the files of a member that does not run. The caller holds the lock of the group.
func (l *Launcher) prepareMember(ctx context.Context, sd serverDir, st state, n int, program mysqld.Binary) error {
	m := sd.member(n)
	own := st
	own.Phase, own.Member, own.Version = phaseLaunching, n, program.Version
	own.Port, own.ProtocolPort = st.Group.Ports[n-1], st.Group.ProtocolPorts[n-1]
	if err := os.Mkdir(m.dir, traversable); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if recorded, err := m.loadState(); err == nil {
		own.TransferPort = recorded.TransferPort
	}
	if err := l.chooseTransferPort(ctx, m, &own); err != nil {
		return err
	}
	if n > 1 || !m.hasKeys() {
		if err := l.copyKeys(sd.memberWithKeys(n, len(st.Group.Ports)), m); err != nil {
			return fmt.Errorf("server %s: %w", m.id, err)
		}
	}
	l.starts.Delete(m.id)
	written, err := l.prepare(ctx, m, &own, program)
	if err != nil {
		return err
	}
	if own.Port != st.Group.Ports[n-1] {
		return fmt.Errorf("server %s: another program has its port", m.id)
	}
	return wait(written)
}

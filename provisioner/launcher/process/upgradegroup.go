package process

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// upgradeGroup is Upgrade for a group: its members get the version one after the other, the primary last. Applications
// go on writing, so there is no way back once a member with the new version is the primary. Until then, members that
// have it can be replaced by ones with the former version, which is what Revert does. The version of the group is
// recorded before that point, and decides what a member that is replaced runs.
func (l *Launcher) upgradeGroup(ctx context.Context, sd serverDir, st state, to mysqld.Binary,
	report, works func(string)) (launcher.Endpoint, error) {
	if st.Flavour != to.Flavour || launcher.CompareVersions(to.Version, st.Version) < 0 {
		return launcher.Endpoint{}, noWayBack(sd, st.Flavour, st.Version, to)
	}
	if st.inGalera() && !launcher.SameSeries(st.Version, to.Version) {
		return launcher.Endpoint{}, launcher.OtherSeries(sd.id,
			launcher.Version{Flavour: st.Flavour, Version: st.Version}, versionOf(to))
	}
	err := l.rollVersion(ctx, sd, &st, to.Version, report, works)
	if err != nil && ctx.Err() == nil {
		return launcher.Endpoint{}, launcher.NotUpgraded(launcher.Version{Flavour: st.Flavour, Version: st.Version},
			versionOf(to), fmt.Errorf("server %s: %w", sd.id, err))
	}
	if err != nil {
		return launcher.Endpoint{}, err
	}
	return l.endpoint(sd, st)
}

// rollVersion restarts the members that have an earlier version. MySQL upgrades the data as it starts.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-upgrade.html
func (l *Launcher) rollVersion(ctx context.Context, sd serverDir, st *state, version string,
	report, works func(string)) error {
	return l.roll(ctx, sd, *st, rolling{doing: "Upgrading server %d of %d", limit: dataUpgradeTime,
		works:  works,
		due:    func(own state) bool { return launcher.CompareVersions(own.Version, version) < 0 },
		change: func(own *state) { own.Version = version },
		last: func() error {
			if st.Version == version {
				return nil
			}
			st.Version = version
			return sd.saveState(*st)
		}}, report)
}

// noWayBack refuses another flavour, or an earlier version.
func noWayBack(sd serverDir, flavour, version string, to mysqld.Binary) error {
	return &launcher.Error{Action: launcher.GiveUp,
		Sentence: fmt.Sprintf("A server of %s cannot become one of %s.",
			launcher.Version{Flavour: flavour, Version: version}, versionOf(to)),
		Err: fmt.Errorf("server %s: its data are of %s %s, and %s is wanted", sd.id, flavour, version, versionOf(to))}
}

// revertGroup is Revert for a group. If a member with the new version is the primary already, it completes the upgrade
// instead. It replaces one member at a time, so that the others are a majority.
func (l *Launcher) revertGroup(ctx context.Context, sd serverDir, st state,
	report, works func(string)) (launcher.Endpoint, error) {
	end := func(err error) (launcher.Endpoint, error) {
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", sd.id, err)
	}
	for {
		all, err := l.awaitMembers(ctx, sd, st, l.startTimeout, func(all []memberLook) bool {
			return slices.ContainsFunc(all, func(m memberLook) bool { return m.Online() && m.Primary })
		})
		if err != nil {
			return end(err)
		}
		newer, err := l.newerMember(sd, &st, all)
		if err != nil {
			return end(err)
		}
		if newer == nil {
			break
		}
		report("Replacing a server that was upgraded")
		if err := ended(ctx); err != nil {
			return end(err)
		}
		if err := l.discardMember(ctx, *newer); err != nil {
			return end(err)
		}
		if _, err := l.awaitMembers(ctx, sd, st, l.startTimeout, allOnline); err != nil {
			return end(err)
		}
	}
	if err := sd.saveState(st); err != nil {
		return end(err)
	}
	if err := l.rollVersion(ctx, sd, &st, st.Version, report, works); err != nil {
		return end(err)
	}
	return l.endpoint(sd, st)
}

// newerMember returns a member that has a later version than its group. If that is the primary, its version becomes
// that of the group; on MariaDB, where all are primaries, only if no member with the former version is online.
func (l *Launcher) newerMember(sd serverDir, st *state, all []memberLook) (newer *serverDir, err error) {
	back, err := l.hasFormer(sd, *st, all)
	if err != nil {
		return nil, err
	}
	for _, primary := range []bool{true, false} {
		of, err := l.programFor(sd, *st)
		if err != nil {
			return nil, err
		}
		for _, m := range all {
			if m.Missing || (m.Primary && !back) != primary {
				continue
			}
			own, err := m.dir.loadState()
			switch {
			case err != nil:
				return nil, err
			case launcher.CompareVersions(own.Version, of.Version) <= 0:
			case primary:
				st.Version = own.Version
			default:
				newer = &m.dir
			}
		}
	}
	return newer, nil
}

// hasFormer reports whether a member of Galera is online that does not have a later version than its group.
func (l *Launcher) hasFormer(sd serverDir, st state, all []memberLook) (bool, error) {
	of, err := l.programFor(sd, st)
	if err != nil || !st.inGalera() {
		return false, err
	}
	for _, m := range all {
		own, err := m.dir.loadState()
		if err != nil && !errors.Is(err, launcher.ErrNotFound) {
			return false, err
		}
		if err == nil && m.Online() && launcher.CompareVersions(own.Version, of.Version) <= 0 {
			return true, nil
		}
	}
	return false, nil
}

// discardMember ends a member, so that the group gets another one in its place.
func (l *Launcher) discardMember(ctx context.Context, m serverDir) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	own, err := m.loadState()
	if err != nil {
		return err
	}
	own.Phase = phaseLaunching
	if err := m.saveState(own); err != nil {
		return err
	}
	fault.Point("revert", "member discarded")
	return l.stopIfRunning(ctx, m, (*server).stop)
}

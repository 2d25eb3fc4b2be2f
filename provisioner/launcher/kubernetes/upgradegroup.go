package kubernetes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// memberUpgradeTime is how long a member with a new version may take until it takes part in its group.
const memberUpgradeTime = time.Hour

// groupUpgrade is an upgrade of a group that has not ended. Its members get the version one after the other, the
// primary last, while applications write: the others are what there is to go back to. That ends when a member with the
// version becomes the primary. Before that, the version is recorded as that of the group.
type groupUpgrade struct {
	Version string `json:"version"`
	Image   string `json:"image"`
	Begun   []int  `json:"begun,omitempty"` // the members that have the version, in this order; the last one may not yet
	Pod     string `json:"pod,omitempty"`   // UID that the pod of the last one of these had before

	Since time.Time `json:"since,omitzero"` // when the last one of these was added

	// Reverts says that the last one of Begun goes back, and then the one before. It keeps its volume if its former pod
	// was never replaced. Otherwise Claim is the UID of the claim that is discarded: the version has changed its files.
	Reverts bool   `json:"reverts,omitempty"`
	Keeps   bool   `json:"keeps,omitempty"`
	Claim   string `json:"claim,omitempty"`
}

// noClaim stands for the UID of a claim that is gone already.
const noClaim = "none"

// recorded reports whether the version is that of the group, so that there is no way back.
func (u *groupUpgrade) recorded(s *server) bool { return s.state.Version == u.Version }

// last is the member of Begun that the upgrade works on.
func (u *groupUpgrade) last(s *server) *server { return s.of(u.Begun[len(u.Begun)-1]) }

// gets returns the upgrade by which a member is to have another version than its group, or nil.
func (s *server) gets() *groupUpgrade {
	if s.member == 0 || s.state.Group.Upgrade == nil {
		return nil
	}
	u := s.state.Group.Upgrade
	n := slices.Index(u.Begun, s.member)
	if n < 0 || u.Reverts && n == len(u.Begun)-1 {
		return nil
	}
	return u
}

// image is that of a server's next pod.
func (s *server) image() string {
	if u := s.gets(); u != nil {
		return u.Image
	}
	return s.state.Image
}

// roll is the number of the change that the next pod of a member is created for: see rollAnnotation.
func (s *server) roll() string {
	if s.gets() != nil {
		return strconv.Itoa(s.state.Group.Roll + 1)
	}
	return strconv.Itoa(s.state.Group.Roll)
}

// changeUpgrade is changeWork for the upgrade of a group.
func (l *Launcher) changeUpgrade(ctx context.Context, s *server, change func(*state, *groupUpgrade)) error {
	return l.changeWork(ctx, s, func(s *server) {
		g, u := *s.state.Group, groupUpgrade{}
		if g.Upgrade != nil {
			u = *g.Upgrade
		}
		u.Begun = slices.Clone(u.Begun)
		g.Upgrade = &u
		s.state.Group = &g
		change(&s.state, &u)
	})
}

// upgradeGroup is Upgrade for a group.
func (l *Launcher) upgradeGroup(ctx context.Context, s *server, spec launcher.Spec, image Image,
	report, works func(string)) (launcher.Endpoint, error) {
	of, to := launcher.Version{Flavour: s.state.Flavour, Version: l.versionOf(s.state)},
		launcher.Version{Flavour: image.Flavour, Version: image.Version}
	switch u := s.state.Group.Upgrade; {
	case u != nil && !u.recorded(s) && (u.Reverts || u.Version != to.Version):
		if err := l.endGroupUpgrade(ctx, s, works); err != nil {
			return launcher.Endpoint{}, err
		}
	case u == nil && launcher.CompareVersions(to.Version, of.Version) > 0:
		report("Upgrading the servers to " + to.String())
		if ctx.Err() != nil { // the report may have found that another has the work now
			return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
		}
		if err := l.changeUpgrade(ctx, s, func(st *state, u *groupUpgrade) {
			st.Version = of.Version
			*u = groupUpgrade{Version: to.Version, Image: image.Name}
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "recorded")
	}
	if s.state.Group.Upgrade != nil {
		err := l.upgradeMembers(ctx, s, works)
		if failed, ok := errors.AsType[*workError](err); ok {
			of.Version = s.state.Version
			return launcher.Endpoint{}, launcher.NotUpgraded(of, to, failed)
		}
		if err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if launcher.CompareVersions(to.Version, l.versionOf(s.state)) > 0 { // what has ended was an upgrade to another version
		return launcher.Endpoint{}, launcher.NotYet(minPoll, "Upgrading the servers to "+to.String())
	}
	return l.bringUp(ctx, s, spec)
}

// upgradeMembers returns once all members have the version, or else NotYet or a workError.
func (l *Launcher) upgradeMembers(ctx context.Context, s *server, works func(string)) error {
	all, err := l.assembleOthers(ctx, s)
	if err != nil {
		return err
	}
	u := s.state.Group.Upgrade
	if len(u.Begun) > 0 {
		if err := l.upgradeMember(ctx, u.last(s), all, works); err != nil {
			return err
		}
	}
	var due []int
	for n := range all {
		if !slices.Contains(u.Begun, n+1) {
			due = append(due, n)
		}
	}
	if len(due) == 0 {
		return l.finishUpgrade(ctx, s)
	}
	next := mysqlgroup.NextToRestart(all, due)
	// One with the former version cannot join if only the later version is left.
	if !mysqlgroup.OthersOnline(all, next) && (!u.recorded(s) || all[next].Online()) {
		return launcher.NotYet(groupPoll, "Waiting until the other servers are up to date")
	}
	var former api.Pod
	if err := l.api.Get(ctx, l.api.Path(api.Pods, s.of(next+1).podName()), &former); err != nil && !api.IsNotFound(err) {
		return err
	}
	noWayBack := len(due) == 1 || slices.Contains(u.Begun, mysqlgroup.Primary(all)+1)
	if err := l.changeUpgrade(ctx, s, func(st *state, u *groupUpgrade) {
		u.Begun, u.Pod, u.Since = append(u.Begun, next+1), former.Metadata.UID, time.Now()
		if noWayBack {
			st.Version, st.Image = u.Version, u.Image
		}
	}); err != nil {
		return err
	}
	fault.Point("upgrade", "member recorded")
	return launcher.NotYet(minPoll, l.upgrading(s))
}

// assembleOthers is assembleFor for a group of which some members may be unable to join. It leads applications to the
// primary, sooner than the supervision does.
func (l *Launcher) assembleOthers(ctx context.Context, s *server) ([]mysqlgroup.Look, error) {
	var known api.Service
	if err := l.api.Get(ctx, l.api.Path(api.Services, s.name), &known); err != nil {
		return nil, err
	}
	all, err := l.assembleFor(ctx, s)
	primary := mysqlgroup.Primary(all)
	if primary < 0 || ctx.Err() != nil {
		return all, err
	}
	if err != nil {
		l.cfg.Logger.Warn("a member of a group that is upgraded does not join", "server", s.id, "error", err)
	}
	err = l.leadTo(ctx, s, &known, primary+1)
	if api.IsConflict(err) { // another broker was faster
		err = nil
	}
	return all, err
}

// finishUpgrade records that no member is due any more.
func (l *Launcher) finishUpgrade(ctx context.Context, s *server) error {
	return l.changeUpgrade(ctx, s, func(st *state, u *groupUpgrade) {
		st.Version, st.Image = u.Version, u.Image
		st.Group = st.Group.rolled() // the number that the pods have
		st.Group.Upgrade = nil
	})
}

func (l *Launcher) upgrading(s *server) string {
	return fmt.Sprintf("Upgrading server %d of %d", max(1, len(s.state.Group.Upgrade.Begun)), len(s.state.Group.Members))
}

// upgradeMember returns nil once a member takes part in its group with the version, or else NotYet or a workError.
func (l *Launcher) upgradeMember(ctx context.Context, m *server, all []mysqlgroup.Look, works func(string)) error {
	if err := l.applyWork(ctx, m, nil); err != nil {
		return err
	}
	fault.Point("upgrade", "member ordered")
	var p api.Pod
	err := l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &p)
	if api.IsNotFound(err) {
		return launcher.NotYet(groupPoll, l.upgrading(m))
	}
	if err != nil {
		return err
	}
	if sentence := leaving(p); sentence != "" {
		return launcher.NotYet(groupPoll, sentence)
	}
	if p.Metadata.Annotations[rollAnnotation] != m.roll() {
		if all[m.member-1].Primary {
			if err := l.leave(ctx, m); err != nil {
				return err
			}
		}
		if err := l.deletePod(ctx, m, p); err != nil {
			return err
		}
		fault.Point("upgrade", "pod deleted")
		return launcher.NotYet(groupPoll, l.upgrading(m))
	}
	if err := l.failedMember(m, p); err != nil {
		return &workError{err}
	}
	switch c := mysqldOf(p); {
	case c.State.Running == nil:
		return launcher.NotYet(groupPoll, l.upgrading(m))
	case l.lookAtMember(ctx, m).Online(): // which all is too old to say of this pod
		return nil
	case time.Since(m.state.Group.Upgrade.Since) > memberUpgradeTime: // it may have been started again meanwhile
		return &workError{fmt.Errorf("server %s: the pod %s is in no group after %v", m.id, m.podName(), memberUpgradeTime)}
	}
	works(l.upgrading(m))
	return launcher.NotYet(groupPoll, l.upgrading(m))
}

// failedMember returns why a member does not come up with its new version, or nil if it may.
func (l *Launcher) failedMember(m *server, p api.Pod) error {
	scheduled := p.Condition("PodScheduled")
	placed := later(p.Metadata.CreationTimestamp, scheduled.LastTransitionTime)
	if scheduled.Status == "False" {
		if time.Since(placed) > l.cfg.PlaceTimeout {
			return fmt.Errorf("server %s: no node for the pod %s in %v: %s", m.id, m.podName(), l.cfg.PlaceTimeout,
				scheduled.Message)
		}
		return nil
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.RestartCount >= restartsToFail && c.State.Running == nil {
			return ended(m, c)
		}
	}
	c := mysqldOf(p)
	if c.State.Running == nil && c.RestartCount == 0 && time.Since(placed) > l.cfg.LaunchTimeout {
		return fmt.Errorf("server %s: the pod %s did not come up in %v: %s", m.id, m.podName(), l.cfg.LaunchTimeout,
			p.Waits())
	}
	return nil
}

// leave has the primary leave its group, so that the others choose another one at once: they do not let a member of a
// later version than theirs become the primary while they are with it.
// https://dev.mysql.com/doc/refman/8.4/en/group-replication-online-upgrade.html
func (l *Launcher) leave(ctx context.Context, m *server) error {
	var stale error
	err := l.onLocked(ctx, m, func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
		if stale = l.expectWork(ctx, m); stale != nil || !now.Primary {
			return nil
		}
		return mysqlgroup.Leave(ctx, conn)
	})
	if err != nil && stale == nil {
		l.cfg.Logger.Warn("a member that is restarted has not left its group", "server", m.id, "error", err)
	}
	fault.Point("upgrade", "primary left")
	return stale
}

package kubernetes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// goingBack is for users.
const goingBack = "Replacing a server that was upgraded"

// revertGroup is Revert for a group.
func (l *Launcher) revertGroup(ctx context.Context, s *server, spec launcher.Spec,
	report, works func(string)) (launcher.Endpoint, error) {
	if s.state.Group.Upgrade != nil {
		report("Giving the servers their former version")
	}
	if ctx.Err() != nil { // the report may have found that another has the work now
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if s.state.Group.Upgrade == nil { // a broker that was paused could begin the upgrade
		if err := l.changeWork(ctx, s, func(*server) {}); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if err := l.endGroupUpgrade(ctx, s, works); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.bringUp(ctx, s, spec)
}

// endGroupUpgrade returns once an upgrade of a group has ended that did not succeed: its members have the former
// version. If a member with the new version is the primary already, all members get that. It does nothing if there is
// no upgrade.
func (l *Launcher) endGroupUpgrade(ctx context.Context, s *server, works func(string)) error {
	u := s.state.Group.Upgrade
	if s.state.Phase != phaseReady || u == nil {
		return nil
	}
	if !u.recorded(s) && !u.Reverts {
		if err := l.changeUpgrade(ctx, s, func(_ *state, u *groupUpgrade) { u.Reverts = true }); err != nil {
			return err
		}
		fault.Point("revert", "recorded")
	}
	if !u.recorded(s) {
		return l.revertMember(ctx, s)
	}
	err := l.upgradeMembers(ctx, s, works)
	if failed, ok := errors.AsType[*workError](err); ok { // the others accept writes
		l.cfg.Logger.Error("a member of a group could not be upgraded", "server", s.id, "error", failed)
		return l.finishUpgrade(ctx, s)
	}
	return err
}

// revertMember takes the next step to give the last member of an upgrade its former version. It returns nil when no
// member is left, and otherwise NotYet.
func (l *Launcher) revertMember(ctx context.Context, s *server) error {
	u := s.state.Group.Upgrade
	if len(u.Begun) == 0 {
		return l.changeUpgrade(ctx, s, func(st *state, _ *groupUpgrade) { st.Group.Upgrade = nil })
	}
	all, err := l.assembleOthers(ctx, s)
	if err != nil {
		return err
	}
	if u.Claim == "" && !u.Keeps {
		if err := l.keepNewerPrimary(ctx, s, all); err != nil {
			return err
		}
	}
	m := u.last(s)
	if err := l.applyWork(ctx, m, nil); err != nil {
		return err
	}
	var p api.Pod
	err = l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &p)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	if u.Claim == "" && !u.Keeps {
		return l.chooseWayBack(ctx, m, p, all)
	}
	if u.Claim != "" {
		if err := l.discardVolume(ctx, m, p, all); err != nil {
			return err
		}
	}
	switch {
	case p.Metadata.UID == "" || leaving(p) != "":
		return launcher.NotYet(groupPoll, goingBack)
	case p.Metadata.UID == u.Pod:
		return cmp.Or(l.deletePod(ctx, m, p), launcher.NotYet(groupPoll, goingBack))
	case p.Metadata.Annotations[rollAnnotation] != m.roll(): // the cluster has made it from the StatefulSet of before
		return l.chooseWayBack(ctx, m, p, all)
	case mysqldOf(p).State.Running == nil || !l.lookAtMember(ctx, m).Online():
		return launcher.NotYet(groupPoll, goingBack)
	}
	if err := l.changeUpgrade(ctx, s, func(_ *state, u *groupUpgrade) {
		u.Begun, u.Pod, u.Keeps, u.Claim = u.Begun[:len(u.Begun)-1], "", false, ""
	}); err != nil {
		return err
	}
	fault.Point("revert", "member back")
	return launcher.NotYet(minPoll, goingBack)
}

// keepNewerPrimary returns nil unless a member with the new version is the primary, which its group has chosen because
// the others were lost. It then records that version, to which there is no way back.
func (l *Launcher) keepNewerPrimary(ctx context.Context, s *server, all []mysqlgroup.Look) error {
	m := s.of(mysqlgroup.Primary(all) + 1)
	if m.member == 0 {
		return launcher.NotYet(groupPoll, "Waiting until the servers form a group")
	}
	var p api.Pod
	err := l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &p)
	if api.IsNotFound(err) {
		return launcher.NotYet(groupPoll, "Waiting until the servers form a group")
	}
	if err != nil || p.Metadata.Annotations[rollAnnotation] != strconv.Itoa(s.state.Group.Roll+1) {
		return err
	}
	if err := l.changeUpgrade(ctx, s, func(st *state, u *groupUpgrade) {
		u.Reverts, u.Keeps, u.Claim = false, false, ""
		st.Version, st.Image = u.Version, u.Image
	}); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, l.upgrading(s))
}

// chooseWayBack records what becomes of the volume of a member whose StatefulSet has the former version again, as soon
// as the other members are online. A pod of before that is still there has not changed the files.
func (l *Launcher) chooseWayBack(ctx context.Context, m *server, p api.Pod, all []mysqlgroup.Look) error {
	if !canDiscard(all, m) {
		return launcher.NotYet(groupPoll, "Waiting until the other servers are up to date")
	}
	discarded := noClaim
	keeps := p.Metadata.UID != "" && p.Metadata.UID == m.state.Group.Upgrade.Pod && leaving(p) == ""
	if !keeps {
		var c api.Claim
		err := l.api.Get(ctx, l.api.Path(api.Claims, m.workName()), &c)
		if err != nil && !api.IsNotFound(err) {
			return err
		}
		if err == nil {
			discarded = c.Metadata.UID
		}
	}
	if err := l.changeUpgrade(ctx, m, func(_ *state, u *groupUpgrade) {
		if u.Keeps = keeps; !keeps {
			u.Claim = discarded
		}
	}); err != nil {
		return err
	}
	fault.Point("revert", "chosen")
	return launcher.NotYet(minPoll, goingBack)
}

// canDiscard reports whether a group does without a member's data.
func canDiscard(all []mysqlgroup.Look, m *server) bool {
	return mysqlgroup.OthersOnline(all, m.member-1) && mysqlgroup.Primary(all) != m.member-1
}

// discardVolume gives a member another volume than that of the claim that is recorded. The member then gets all data
// from the others.
func (l *Launcher) discardVolume(ctx context.Context, m *server, p api.Pod, all []mysqlgroup.Look) error {
	var c api.Claim
	err := l.api.Get(ctx, l.api.Path(api.Claims, m.workName()), &c)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	if err != nil || c.Metadata.UID != m.state.Group.Upgrade.Claim {
		_, err := l.applyClaim(ctx, m)
		return err
	}
	if c.Metadata.DeletionTimestamp.IsZero() {
		if !canDiscard(all, m) { // since it was chosen, another one may have been lost
			return cmp.Or(l.keepNewerPrimary(ctx, m.of(0), all),
				launcher.NotYet(groupPoll, "Waiting until the other servers are up to date"))
		}
		if err := l.expectWork(ctx, m); err != nil {
			return err
		}
		err := l.api.Delete(ctx, l.api.Path(api.Claims, m.workName()),
			api.DeleteOptions{Preconditions: &api.Preconditions{UID: c.Metadata.UID}})
		if err != nil && !api.IsNotFound(err) && !api.IsConflict(err) {
			return err
		}
		fault.Point("revert", "volume discarded")
	}
	// The claim stays as long as a pod uses it that has a node.
	if p.Condition("PodScheduled").Status == "True" && leaving(p) == "" {
		if err := l.deletePod(ctx, m, p); err != nil {
			return err
		}
	}
	return launcher.NotYet(groupPoll, goingBack)
}

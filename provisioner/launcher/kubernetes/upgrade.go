package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

// upgrade is an upgrade of a server that has not ended. It is done by a pod of another kind, which runs in place of the
// server's and has a second volume for a copy of the data. Its init containers run mysqld without a network.
type upgrade struct {
	ID      string `json:"id"` // of the copy, as a volume may have an older one
	Version string `json:"version"`
	Image   string `json:"image"`
	Reverts bool   `json:"reverts,omitempty"` // the pod puts the data of before back
}

// workAnnotation of a pod says which work it does: see upgrade.work. Pods that run the server do not have it.
const workAnnotation = "mysql-broker/work"

func (u upgrade) work() string {
	if u.Reverts {
		return "revert " + u.ID
	}
	return "upgrade " + u.ID
}

// Versions implements launcher.Upgrader.
func (l *Launcher) Versions() []launcher.Version {
	var all []launcher.Version
	for _, i := range l.cfg.Images {
		all = append(all, launcher.Version{Flavour: i.Flavour, Version: i.Version})
	}
	return all
}

// versionOf returns the version of a server's data. Brokers of before the field Version recorded the image alone.
func (l *Launcher) versionOf(st state) string {
	i := slices.IndexFunc(l.cfg.Images, func(i Image) bool { return i.Name == st.Image })
	if st.Version != "" || i < 0 {
		return st.Version
	}
	return l.cfg.Images[i].Version
}

// Upgrade implements launcher.Upgrader.
func (l *Launcher) Upgrade(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	image, err := l.imageOf(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.findReady(ctx, spec.ID)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	of, to := launcher.Version{Flavour: s.state.Flavour, Version: l.versionOf(s.state)},
		launcher.Version{Flavour: image.Flavour, Version: image.Version}
	switch order := launcher.CompareVersions(to.Version, of.Version); {
	case of.Flavour != to.Flavour || order < 0:
		return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp,
			Sentence: fmt.Sprintf("A server of %s cannot become one of %s.", of, to),
			Err:      fmt.Errorf("server %s: its data are of %s, and %s is wanted", s.id, of, to)}
	case s.state.Upgrade != nil && s.state.Upgrade.Reverts:
		if err := l.abandonUpgrade(ctx, s); err != nil {
			return launcher.Endpoint{}, err
		}
		return launcher.Endpoint{}, launcher.NotYet(minPoll, "Starting "+of.String())
	case s.state.Upgrade == nil && order > 0:
		report("Stopping the server")
		if ctx.Err() != nil { // the report may have found that another has the work now
			return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
		}
		if err := l.change(ctx, s, func(s *server) {
			s.state.Phase, s.state.Version = phaseUpgrading, of.Version
			s.state.Upgrade = &upgrade{ID: strings.ToLower(rand.Text()[:8]), Version: to.Version, Image: image.Name}
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "recorded")
	}
	if s.state.Upgrade != nil {
		if err := l.upgradeData(ctx, s, of); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	report("Starting " + to.String())
	return l.endWork(ctx, s, spec)
}

// findReady returns a server that was launched and is not suspended.
func (l *Launcher) findReady(ctx context.Context, id string) (*server, error) {
	s, err := l.find(ctx, id)
	if err == nil && s.state.Phase != phaseReady && s.state.Phase != phaseUpgrading {
		err = fmt.Errorf("server %s: it is %s: %w", id, s.state.Phase, launcher.ErrNotFound)
	}
	return s, err
}

// upgradeData returns once the data are upgraded. It has the pod do the work.
func (l *Launcher) upgradeData(ctx context.Context, s *server, of launcher.Version) error {
	u := *s.state.Upgrade
	to := launcher.Version{Flavour: of.Flavour, Version: u.Version}
	err := l.work(ctx, s, map[string]string{"copy": "Copying the data",
		"upgrade": "Upgrading the data to " + to.String()})
	if failed, ok := errors.AsType[*workError](err); ok { // applications wait, so it is not tried again
		return &launcher.Error{Action: launcher.GiveUp, Err: failed,
			Sentence: fmt.Sprintf("The server could not be upgraded to %s. It continues with %s and the data of before.", to,
				of)}
	}
	if err != nil {
		return err
	}
	fault.Point("upgrade", "compared")
	return l.change(ctx, s, func(s *server) {
		s.state.Phase, s.state.Version, s.state.Image, s.state.Upgrade = phaseReady, u.Version, u.Image, nil
	})
}

// Revert implements launcher.Upgrader.
func (l *Launcher) Revert(ctx context.Context, spec launcher.Spec,
	report func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	s, err := l.findReady(ctx, spec.ID)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	if s.state.Phase == phaseUpgrading {
		report("Putting the data of before back")
	}
	if ctx.Err() != nil {
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if err := l.abandonUpgrade(ctx, s); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.endWork(ctx, s, spec)
}

// abandonUpgrade returns once the data are as they were before an upgrade that has not succeeded. It does nothing in
// other phases.
func (l *Launcher) abandonUpgrade(ctx context.Context, s *server) error {
	if s.state.Phase != phaseUpgrading {
		return nil
	}
	if !s.state.Upgrade.Reverts {
		if err := l.change(ctx, s, func(s *server) {
			if s.state.Upgrade != nil {
				s.state.Upgrade.Reverts = true
			}
		}); err != nil {
			return err
		}
	}
	if err := l.work(ctx, s, map[string]string{"restore": "Putting the data of before back"}); err != nil {
		return err
	}
	fault.Point("revert", "restored")
	return l.change(ctx, s, func(s *server) { s.state.Phase, s.state.Upgrade = phaseReady, nil })
}

// workError says why the pod's work failed.
type workError struct{ error }

// work replaces the pod by one that does the work of an upgrade, and returns nil when that has done it, or NotYet.
// sentences are for users, by the container that runs.
func (l *Launcher) work(ctx context.Context, s *server, sentences map[string]string) error {
	var copied claim
	if err := l.api.apply(ctx, l.api.path(claims, s.copyName()), l.copyClaimOf(s), &copied); err != nil {
		return err
	}
	if !copied.Metadata.DeletionTimestamp.IsZero() {
		return launcher.NotYet(minPoll, "Waiting until the volume of an earlier copy is removed")
	}
	if err := l.api.apply(ctx, l.api.path(statefulSets, s.name), l.statefulSetOf(s), nil); err != nil {
		return err
	}
	fault.Point("upgrade", "pod ordered")
	l.up.Delete(s.id)
	var p pod
	err := l.api.get(ctx, l.api.path(pods, s.podName()), &p)
	if isNotFound(err) {
		return launcher.NotYet(minPoll, "Waiting for a node")
	}
	if err != nil {
		return err
	}
	wait := func(sentence string) error { return launcher.NotYet(pollAfter(p.Metadata.CreationTimestamp), sentence) }
	if sentence := p.leaving(); sentence != "" {
		return wait(sentence)
	}
	if p.Metadata.Annotations[workAnnotation] != s.state.Upgrade.work() {
		if err := l.deletePod(ctx, s, p); err != nil {
			return err
		}
		return launcher.NotYet(minPoll, "Stopping the server")
	}
	for _, c := range p.Status.InitContainerStatuses {
		for _, was := range []containerState{c.State, c.LastState} {
			if was.Terminated != nil && was.Terminated.ExitCode != 0 {
				return &workError{fmt.Errorf("server %s: %s: %s, exit code %d: %s", s.id, c.Name, was.Terminated.Reason,
					was.Terminated.ExitCode, was.Terminated.Message)}
			}
		}
		if c.State.Running != nil && sentences[c.Name] != "" {
			return wait(sentences[c.Name])
		}
	}
	if p.mysqld().State.Running == nil {
		return wait("Preparing the volumes")
	}
	return nil
}

// endWork returns once the server runs again, and removes the copy.
func (l *Launcher) endWork(ctx context.Context, s *server, spec launcher.Spec) (launcher.Endpoint, error) {
	if err := l.api.apply(ctx, l.api.path(statefulSets, s.name), l.statefulSetOf(s), nil); err != nil {
		return launcher.Endpoint{}, err
	}
	var p pod
	err := l.api.get(ctx, l.api.path(pods, s.podName()), &p)
	if err == nil && p.Metadata.Annotations[workAnnotation] != "" {
		if err := l.deletePod(ctx, s, p); err != nil {
			return launcher.Endpoint{}, err
		}
		return launcher.Endpoint{}, launcher.NotYet(minPoll, "Starting the server")
	}
	if err != nil && !isNotFound(err) {
		return launcher.Endpoint{}, err
	}
	e, err := l.bringUp(ctx, s, spec)
	if err != nil {
		return e, err
	}
	err = l.api.delete(ctx, l.api.path(claims, s.copyName()), deleteOptions{})
	if err != nil && !isNotFound(err) {
		return launcher.Endpoint{}, err
	}
	return e, nil
}

// deletePod deletes that pod, and no later one of its name.
func (l *Launcher) deletePod(ctx context.Context, s *server, p pod) error {
	err := l.api.delete(ctx, l.api.path(pods, s.podName()),
		deleteOptions{Preconditions: &preconditions{UID: p.Metadata.UID}})
	if isNotFound(err) || isConflict(err) {
		return nil
	}
	return err
}

func (s *server) copyName() string { return s.name + "-before" }

// copyClaimOf is for a volume as large as that of the data.
func (l *Launcher) copyClaimOf(s *server) claim {
	c := l.claimOf(s)
	c.Metadata.Name = s.copyName()
	return c
}

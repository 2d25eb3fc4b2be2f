package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
)

// upgrade is an upgrade of a server that has not ended. It is done by a pod of another kind, which runs in place of the
// server's and has a second volume for a copy of the data. Its init containers run mysqld without a network.
type upgrade struct {
	ID      string `json:"id"` // of the copy, as a volume may have an older one
	Version string `json:"version"`
	Image   string `json:"image"`
	Reverts bool   `json:"reverts,omitempty"` // the pod puts the earlier data back
}

// workTime is for how long a container that copies or upgrades data is believed to work. Nothing tells from outside
// whether it hangs.
const workTime = 6 * time.Hour

// ignored is for callers whose task does nothing else that takes long.
func ignored(string) {}

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
	report, works func(progress string)) (_ launcher.Endpoint, err error) {
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
			Err:      fmt.Errorf("server %s: its data is of %s, and %s is wanted", s.id, of, to)}
	case s.state.Upgrade != nil && s.state.Upgrade.Reverts:
		if err := l.abandonUpgrade(ctx, s, works); err != nil {
			return launcher.Endpoint{}, err
		}
		return launcher.Endpoint{}, launcher.NotYet(minPoll, "Starting "+of.String())
	case s.state.Upgrade == nil && order > 0:
		if err := l.claimCopy(ctx, s); err != nil { // a quota may refuse it, and the server runs on
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "copy claimed")
		report("Stopping the server")
		if ctx.Err() != nil { // the report may have found that another has the work now
			return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
		}
		if err := l.changeWork(ctx, s, func(s *server) {
			s.state.Phase, s.state.Version = phaseUpgrading, of.Version
			s.state.Upgrade = &upgrade{ID: strings.ToLower(rand.Text()[:8]), Version: to.Version, Image: image.Name}
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "recorded")
	}
	if s.state.Upgrade != nil {
		if err := l.upgradeData(ctx, s, of, works); err != nil {
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

// upgradeData returns once the data is upgraded. It has the pod do the work.
func (l *Launcher) upgradeData(ctx context.Context, s *server, of launcher.Version, works func(string)) error {
	u := *s.state.Upgrade
	to := launcher.Version{Flavour: of.Flavour, Version: u.Version}
	err := l.work(ctx, s, map[string]string{"copy": "Copying the data",
		"upgrade": "Upgrading the data to " + to.String()}, works)
	if failed, ok := errors.AsType[*workError](err); ok { // applications wait, so it is not tried again
		return &launcher.Error{Action: launcher.GiveUp, Err: failed,
			Sentence: fmt.Sprintf("The server could not be upgraded to %s. It continues with %s and the earlier data.", to,
				of)}
	}
	if err != nil {
		return err
	}
	fault.Point("upgrade", "compared")
	return l.changeWork(ctx, s, func(s *server) {
		s.state.Phase, s.state.Version, s.state.Image, s.state.Upgrade = phaseReady, u.Version, u.Image, nil
	})
}

// Revert implements launcher.Upgrader.
func (l *Launcher) Revert(ctx context.Context, spec launcher.Spec,
	report, works func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	s, err := l.findReady(ctx, spec.ID)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	reverts := s.state.Phase == phaseUpgrading
	if reverts {
		report("Putting the earlier data back")
	}
	if ctx.Err() != nil {
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if !reverts { // else a broker that was paused could begin the upgrade
		if err := l.changeWork(ctx, s, func(*server) {}); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if err := l.abandonUpgrade(ctx, s, works); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.endWork(ctx, s, spec)
}

// abandonUpgrade returns once the data is as it was before an upgrade that has not succeeded. It does nothing in
// other phases.
func (l *Launcher) abandonUpgrade(ctx context.Context, s *server, works func(string)) error {
	if s.state.Phase != phaseUpgrading {
		return nil
	}
	if !s.state.Upgrade.Reverts {
		reverts := *s.state.Upgrade
		reverts.Reverts = true
		if err := l.changeWork(ctx, s, func(s *server) { s.state.Upgrade = &reverts }); err != nil {
			return err
		}
	}
	if err := l.work(ctx, s, map[string]string{"restore": "Putting the earlier data back"}, works); err != nil {
		return err
	}
	fault.Point("revert", "restored")
	return l.changeWork(ctx, s, func(s *server) { s.state.Phase, s.state.Upgrade = phaseReady, nil })
}

// workError says why the pod's work failed.
type workError struct{ error }

// work replaces the pod by one that does the work of an upgrade, and returns nil when that has done it, or NotYet.
// sentences are for users, by the container that runs. works gets those of containers that have not run for long.
func (l *Launcher) work(ctx context.Context, s *server, sentences map[string]string, works func(string)) error {
	if err := l.applyWork(ctx, s, nil); err != nil {
		return err
	}
	fault.Point("upgrade", "pod ordered")
	l.up.Delete(s.id)
	var p api.Pod
	err := l.api.Get(ctx, l.api.Path(api.Pods, s.podName()), &p)
	if api.IsNotFound(err) {
		return launcher.NotYet(minPoll, "Waiting for a node")
	}
	if err != nil {
		return err
	}
	wait := func(sentence string) error { return launcher.NotYet(pollAfter(p.Metadata.CreationTimestamp), sentence) }
	if sentence := leaving(p); sentence != "" {
		return wait(sentence)
	}
	if p.Metadata.Annotations[workAnnotation] != s.state.Upgrade.work() {
		if err := l.deletePod(ctx, s, p); err != nil {
			return err
		}
		return launcher.NotYet(minPoll, "Stopping the server")
	}
	var copied api.Claim // read after the pod: no other one uses it now
	err = l.api.Get(ctx, l.api.Path(api.Claims, s.copyName()), &copied)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	unbound := copied.Status.Phase == "" || copied.Status.Phase == "Pending"
	if s.state.Upgrade.Reverts && unbound { // nothing was copied, so the data is as it was
		return l.deleteCopy(ctx, s)
	}
	if !s.state.Upgrade.Reverts { // the cluster repeats what fails, which is right for a revert alone
		if err := l.failed(s, p, unbound); err != nil {
			return &workError{err}
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if c.State.Running != nil && sentences[c.Name] != "" {
			if time.Since(c.State.Running.StartedAt) < workTime {
				works(sentences[c.Name])
			}
			return wait(sentences[c.Name])
		}
		if c.Fetching() {
			return wait(fetchingImage)
		}
	}
	if mysqldOf(p).State.Running == nil {
		return wait("Preparing the volumes")
	}
	return nil
}

// failed returns why a pod cannot upgrade the data, or nil if it may succeed. unbound says that the copy has no volume
// yet.
func (l *Launcher) failed(s *server, p api.Pod, unbound bool) error {
	scheduled := p.Condition("PodScheduled")
	placed := later(p.Metadata.CreationTimestamp, scheduled.LastTransitionTime)
	switch {
	case scheduled.Status == "False" && time.Since(placed) > l.cfg.PlaceTimeout:
		return fmt.Errorf("server %s: no node for the pod %s in %v: %s", s.id, s.podName(), l.cfg.PlaceTimeout,
			scheduled.Message)
	case unbound && time.Since(p.Metadata.CreationTimestamp) > l.cfg.PlaceTimeout:
		return fmt.Errorf("server %s: no volume for the claim %s in %v", s.id, s.copyName(), l.cfg.PlaceTimeout)
	}
	since := placed // when the next container could start
	for _, c := range p.Status.InitContainerStatuses {
		for _, was := range []api.ContainerState{c.State, c.LastState} {
			if was.Terminated != nil && was.Terminated.ExitCode != 0 {
				return fmt.Errorf("server %s: %s: %s, exit code %d: %s", s.id, c.Name, was.Terminated.Reason,
					was.Terminated.ExitCode, was.Terminated.Message)
			}
		}
		switch {
		case c.State.Running != nil:
			return nil
		case c.State.Terminated != nil:
			since = later(since, c.State.Terminated.FinishedAt)
		case time.Since(since) > l.cfg.LaunchTimeout: // its image cannot be fetched, or a volume cannot be attached
			return fmt.Errorf("server %s: the pod %s did not come up in %v: %s", s.id, s.podName(), l.cfg.LaunchTimeout,
				p.Waits())
		}
	}
	return nil
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// endWork returns once the server runs again, and removes the copy.
func (l *Launcher) endWork(ctx context.Context, s *server, spec launcher.Spec) (launcher.Endpoint, error) {
	if err := l.applyWork(ctx, s, nil); err != nil {
		return launcher.Endpoint{}, err
	}
	e, err := l.bringUp(ctx, s, spec)
	if err != nil {
		return e, err
	}
	if err := l.expectWork(ctx, s); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("upgrade", "server back")
	return e, l.deleteCopy(ctx, s)
}

// endPod replaces the pod of an upgrade that has ended by one that runs the server, and returns NotYet.
func (l *Launcher) endPod(ctx context.Context, s *server, p api.Pod) error {
	if err := l.applyWork(ctx, s, nil); err != nil {
		return err
	}
	if sentence := leaving(p); sentence != "" {
		return launcher.NotYet(pollAfter(p.Metadata.CreationTimestamp), sentence)
	}
	if err := l.deletePod(ctx, s, p); err != nil {
		return err
	}
	return launcher.NotYet(minPoll, "Starting the server")
}

func (s *server) copyName() string { return s.name + "-before" }

// copyClaimOf is for a volume as large as that of the data.
func (l *Launcher) copyClaimOf(s *server) api.Claim {
	c := l.claimOf(s)
	c.Metadata.Name = s.copyName()
	return c
}

// claimCopy creates the claim for the copy.
func (l *Launcher) claimCopy(ctx context.Context, s *server) error {
	var copied api.Claim
	if err := l.api.Apply(ctx, l.api.Path(api.Claims, s.copyName()), l.copyClaimOf(s), &copied); err != nil {
		return err
	}
	if !copied.Metadata.DeletionTimestamp.IsZero() {
		return launcher.NotYet(minPoll, "Waiting until the volume of an earlier copy is removed")
	}
	return nil
}

func (l *Launcher) deleteCopy(ctx context.Context, s *server) error {
	err := l.api.Delete(ctx, l.api.Path(api.Claims, s.copyName()), api.DeleteOptions{})
	if api.IsNotFound(err) {
		return nil
	}
	return err
}

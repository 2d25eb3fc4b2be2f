package kubernetes

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
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
func (l *Launcher) Versions() []launcher.Version { return l.cfg.versions() }

func (c Config) versions() (all []launcher.Version) {
	for _, i := range c.Images {
		all = append(all, launcher.Version{Flavour: i.Flavour, Version: i.Version})
	}
	return all
}

// Upgrade implements launcher.Upgrader.
func (l *Launcher) Upgrade(ctx context.Context, spec launcher.Spec,
	report, works func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	image, err := l.cfg.offered(spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	s, err := l.findReady(ctx, spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	u := upgrader{l.run, s, works}
	of, to := launcher.Version{Flavour: s.state.Flavour, Version: s.state.Version},
		launcher.Version{Flavour: image.Flavour, Version: image.Version}
	switch order := launcher.CompareVersions(to.Version, of.Version); {
	case of.Flavour != to.Flavour || order < 0:
		return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp,
			Sentence: fmt.Sprintf("A server of %s cannot become one of %s.", of, to),
			Err:      fmt.Errorf("server %s: its data is of %s, and %s is wanted", s.id, of, to)}
	case s.state.Upgrade != nil && s.state.Upgrade.Reverts:
		if err := u.abandon(ctx); err != nil {
			return launcher.Endpoint{}, err
		}
		return launcher.Endpoint{}, launcher.NotYet(minPoll, "Starting "+of.String())
	case s.state.Upgrade == nil && order > 0:
		if _, err := u.volume(ctx, s); err != nil {
			return launcher.Endpoint{}, err
		}
		if err := u.claimCopy(ctx, s); err != nil { // a quota may refuse it, and the server runs on
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "copy claimed")
		report("Stopping the server")
		if ctx.Err() != nil { // the report may have found that another has the work now
			return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
		}
		if err := u.beginWork(ctx, s, true, func(s *server) {
			s.state.Phase = phaseUpgrading
			s.state.Upgrade = &upgrade{ID: strings.ToLower(rand.Text()[:8]), Version: to.Version, Image: image.Name}
		}); err != nil {
			return launcher.Endpoint{}, err
		}
		fault.Point("upgrade", "recorded")
	}
	if s.state.Upgrade != nil {
		if err := u.upgrade(ctx, of); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	report("Starting " + to.String())
	return u.end(ctx, spec)
}

// findReady returns a server that was launched and is not suspended, with all its files.
func (l *Launcher) findReady(ctx context.Context, spec launcher.Spec) (*server, error) {
	s, err := l.secrets.find(ctx, spec.ID)
	if err == nil && s.state.Phase != phaseReady && s.state.Phase != phaseUpgrading {
		err = fmt.Errorf("server %s: it is %s: %w", s.id, s.state.Phase, launcher.ErrNotFound)
	}
	if err != nil {
		return s, err
	}
	return s, l.run.makeFiles(ctx, s, spec, s.state.Host)
}

// upgrader upgrades the data of a server, or puts the earlier data back.
type upgrader struct {
	*runner
	s     *server
	works func(progress string)
}

// upgrade returns once the data is upgraded. It has the pod do the work.
func (u upgrader) upgrade(ctx context.Context, of launcher.Version) error {
	next := *u.s.state.Upgrade
	to := launcher.Version{Flavour: of.Flavour, Version: next.Version}
	err := u.work(ctx, map[string]string{"copy": "Copying the data",
		"upgrade": "Upgrading the data to " + to.String()})
	if failed, ok := errors.AsType[*workError](err); ok { // applications wait, so it is not tried again
		return &launcher.Error{Action: launcher.GiveUp, Err: failed,
			Sentence: fmt.Sprintf("The server could not be upgraded to %s. It continues with %s and the earlier data.", to,
				of)}
	}
	if err != nil {
		return err
	}
	fault.Point("upgrade", "compared")
	return u.changeWork(ctx, u.s, func(s *server) {
		s.state.Phase, s.state.Version, s.state.Image, s.state.Upgrade = phaseReady, next.Version, next.Image, nil
	})
}

// Revert implements launcher.Upgrader.
func (l *Launcher) Revert(ctx context.Context, spec launcher.Spec,
	report, works func(progress string)) (_ launcher.Endpoint, err error) {
	defer func() { err = explain(err) }()
	s, err := l.findReady(ctx, spec)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	u, reverts := upgrader{l.run, s, works}, s.state.Phase == phaseUpgrading
	if reverts {
		report("Putting the earlier data back")
	}
	if ctx.Err() != nil {
		return launcher.Endpoint{}, fmt.Errorf("server %s: %w", s.id, context.Cause(ctx))
	}
	if !reverts { // else a broker that was paused could begin the upgrade
		if err := u.changeWork(ctx, s, func(*server) {}); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if err := u.abandon(ctx); err != nil {
		return launcher.Endpoint{}, err
	}
	return u.end(ctx, spec)
}

// abandon returns once the data is as it was before an upgrade that has not succeeded. It does nothing in other phases.
func (u upgrader) abandon(ctx context.Context) error {
	s := u.s
	if s.state.Phase != phaseUpgrading {
		return nil
	}
	if !s.state.Upgrade.Reverts {
		reverts := *s.state.Upgrade
		reverts.Reverts = true
		if err := u.changeWork(ctx, s, func(s *server) { s.state.Upgrade = &reverts }); err != nil {
			return err
		}
	}
	if err := u.work(ctx, map[string]string{"restore": "Putting the earlier data back"}); err != nil {
		return err
	}
	fault.Point("revert", "restored")
	return u.changeWork(ctx, s, func(s *server) { s.state.Phase, s.state.Upgrade = phaseReady, nil })
}

// ofWork are the containers that work.
var ofWork = map[string]bool{"copy": true, "upgrade": true, "restore": true}

// workError says why the pod's work failed.
type workError struct{ error }

// work replaces the pod by one that does the work of an upgrade, and returns nil when that has done it, or NotYet.
// sentences are for users, by the container that runs. works gets those of containers that have not run for long.
func (u upgrader) work(ctx context.Context, sentences map[string]string) error {
	s, set := u.s, api.StatefulSet{}
	if err := u.applyWork(ctx, s, &set); err != nil {
		return err
	}
	fault.Point("upgrade", "pod ordered")
	u.up.Delete(s.id)
	p, there, err := u.pod(ctx, s)
	if err != nil {
		return err
	}
	if !there {
		why := u.whyNoPod(ctx, s, set)
		if errors.Is(why, errNoPod) && !s.state.Upgrade.Reverts {
			return &workError{why}
		}
		return cmp.Or(u.untilAllowed(why), launcher.NotYet(minPoll, "Waiting for a node"))
	}
	wait := func(sentence string) error { return u.poll(p.Metadata.CreationTimestamp, sentence) }
	if sentence := u.leaving(p); sentence != "" {
		return wait(sentence)
	}
	if p.Metadata.Annotations[workAnnotation] != s.state.Upgrade.work() {
		if err := u.deletePod(ctx, s, p.Metadata.UID); err != nil {
			return err
		}
		return launcher.NotYet(minPoll, "Stopping the server")
	}
	var copied api.Claim // read after the pod: no other one uses it now
	err = u.api.Get(ctx, u.api.Path(api.Claims, s.copyName()), &copied)
	if err != nil && !api.IsNotFound(err) {
		return err
	}
	unbound := copied.Status.Phase == "" || copied.Status.Phase == "Pending"
	if s.state.Upgrade.Reverts && unbound { // nothing was copied, so the data is as it was
		return u.deleteCopy(ctx, s)
	}
	if !s.state.Upgrade.Reverts { // the cluster repeats what fails, which is right for a revert alone
		if err := u.failed(p, unbound); err != nil {
			return &workError{err}
		}
	}
	for _, c := range p.Status.InitContainerStatuses {
		if c.State.Running != nil && sentences[c.Name] != "" {
			if u.api.Since(c.State.Running.StartedAt) < workTime {
				u.works(sentences[c.Name])
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
func (u upgrader) failed(p api.Pod, unbound bool) error {
	s, scheduled := u.s, p.Condition("PodScheduled")
	placed := later(p.Metadata.CreationTimestamp, scheduled.LastTransitionTime)
	switch {
	case scheduled.Status == "False" && u.api.Since(placed) > u.cfg.PlaceTimeout:
		return fmt.Errorf("server %s: no node for the pod %s in %v: %s", s.id, s.podName(), u.cfg.PlaceTimeout,
			scheduled.Message)
	case unbound && u.api.Since(p.Metadata.CreationTimestamp) > u.cfg.PlaceTimeout:
		return fmt.Errorf("server %s: no volume for the claim %s in %v", s.id, s.copyName(), u.cfg.PlaceTimeout)
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
		case c.State.Running != nil && ofWork[c.Name]:
			return nil
		case c.State.Running != nil: // a webhook has added it, and it may run beside the work
			since = later(since, c.State.Running.StartedAt)
		case c.State.Terminated != nil:
			since = later(since, c.State.Terminated.FinishedAt)
		case u.api.Since(since) > u.cfg.LaunchTimeout: // its image cannot be fetched, or a volume cannot be attached
			return fmt.Errorf("server %s: the pod %s did not come up in %v: %s", s.id, s.podName(), u.cfg.LaunchTimeout,
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

// end returns once the server runs again, and removes the copy.
func (u upgrader) end(ctx context.Context, spec launcher.Spec) (launcher.Endpoint, error) {
	if err := u.applyWork(ctx, u.s, nil); err != nil {
		return launcher.Endpoint{}, err
	}
	e, err := u.bringUp(ctx, u.s, spec)
	if err != nil {
		return e, u.untilAllowed(err)
	}
	if err := u.expectWork(ctx, u.s); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("upgrade", "server back")
	return e, u.deleteCopy(ctx, u.s)
}

// untilAllowed makes NotYet of an error of whyNoPod. The server was ready once, and nobody else would put its earlier
// data back.
func (u upgrader) untilAllowed(err error) error {
	refused, ok := errors.AsType[*launcher.Error](err)
	if !ok || !errors.Is(err, errNoPod) {
		return err
	}
	u.cfg.Logger.Warn("waiting until the cluster allows a server's pod", "server", u.s.id, "error", err)
	return launcher.NotYet(allowedPoll, refused.Sentence)
}

// allowedPoll is the pause before the next look for a pod that the cluster refuses, which is logged each time.
const allowedPoll = 30 * time.Second

//go:build faults

package stage

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
)

func (l *played) Versions() []launcher.Version { return l.versions }

// offered returns the version of a new server.
func (l *played) offered(spec launcher.Spec) (string, error) {
	v, found := launcher.Newest(l.versions, spec.Flavour, spec.Version)
	if !found {
		wanted := launcher.Version{Flavour: spec.Flavour, Version: spec.Version}
		return "", &launcher.Error{Action: launcher.GiveUp, Sentence: "There are no servers of that version here.",
			Err: fmt.Errorf("server %s: %s is wanted, and %v is offered", spec.ID, wanted, l.versions)}
	}
	return v.Version, nil
}

// Upgrade implements launcher.Upgrader. The program stays the same.
func (l *played) Upgrade(ctx context.Context, spec launcher.Spec, report, _ func(string)) (e launcher.Endpoint, err error) {
	to, err := l.offered(spec)
	if err != nil {
		return e, err
	}
	s, release, err := l.running(ctx, spec.ID)
	if err != nil {
		return e, err
	}
	defer release()
	switch order := launcher.CompareVersions(to, s.version); {
	case order < 0:
		return e, &launcher.Error{Action: launcher.GiveUp, Sentence: "The server has a later version.",
			Err: fmt.Errorf("server %s: it has version %s, and %s is wanted", spec.ID, s.version, to)}
	case order > 0:
		if err := l.upgrade(ctx, s, to, report); err != nil {
			return e, err
		}
	}
	report("Starting the server")
	if err := l.checkAdmin(ctx, s, spec); err != nil {
		return e, err
	}
	fault.Point("upgrade", "answers")
	return s.machine.endpoint(), nil
}

func (l *played) upgrade(ctx context.Context, s *playedServer, to string, report func(string)) error {
	if s.phase == ready {
		if err := l.tell(ctx, report, "Stopping the server"); err != nil {
			return err
		}
		l.set(func() { s.phase = upgrading })
		fault.Point("upgrade", "recorded")
	}
	if err := l.shut(ctx, s); err != nil {
		return err
	}
	fault.Point("upgrade", "stopped")
	if err := l.tell(ctx, report, "Copying the data"); err != nil {
		return err
	}
	fault.Point("upgrade", "copied")
	if err := l.tell(ctx, report, "Upgrading the data"); err != nil {
		return err
	}
	for _, point := range []string{"started", "tables upgraded", "compared"} {
		fault.Point("upgrade", point)
	}
	if err := l.open(ctx, s); err != nil {
		return err
	}
	l.set(func() { s.phase, s.version = ready, to })
	return nil
}

func (l *played) Revert(ctx context.Context, spec launcher.Spec, report, _ func(string)) (e launcher.Endpoint, err error) {
	s, release, err := l.running(ctx, spec.ID)
	if err != nil {
		return e, err
	}
	defer release()
	if s.phase == upgrading {
		report("Putting the earlier data back")
	}
	if ctx.Err() != nil {
		return e, context.Cause(ctx)
	}
	if err := l.abandonUpgrade(ctx, s); err != nil {
		return e, err
	}
	return s.machine.endpoint(), l.checkAdmin(ctx, s, spec)
}

// abandonUpgrade makes a server ready that was being upgraded.
func (l *played) abandonUpgrade(ctx context.Context, s *playedServer) error {
	if s.phase != upgrading {
		return nil
	}
	fault.Point("revert", "data removed")
	if err := l.open(ctx, s); err != nil {
		return err
	}
	fault.Point("revert", "copy moved")
	l.set(func() { s.phase = ready })
	return nil
}

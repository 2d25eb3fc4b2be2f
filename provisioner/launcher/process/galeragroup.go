package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/launcher/galera"
)

// assembleGalera is assemble for Galera. A member joins as it starts, so its start is part of this, not of supervision.
func (l *Launcher) assembleGalera(ctx context.Context, sd serverDir, st state, all []memberLook) error {
	if countOnline(all) > 0 {
		l.alone.Delete(sd.id)
		return l.completeGalera(ctx, sd, st, all)
	}
	cut, down, starting := 0, 0, 0
	for _, m := range all {
		switch {
		case m.Missing || m.down:
			down++
		case m.Err == nil && m.State == galera.Alone:
			cut++
		case m.State == "RECOVERING": // it begins the group, or ends because it finds none
			starting++
		}
	}
	if down == len(all) {
		l.alone.Delete(sd.id)
		return l.beginGalera(ctx, sd, st, all)
	}
	since, _ := l.alone.LoadOrStore(sd.id, time.Now())
	waited := time.Since(since.(time.Time))
	if waited < galera.WithoutMajority || starting > 0 && waited < galera.StartsAlone ||
		2*(cut+down+starting) <= len(all) {
		return nil
	}
	l.alone.Delete(sd.id)
	var errs []error
	for _, m := range all {
		errs = append(errs, l.endMember(ctx, m.dir))
	}
	return errors.Join(errs...)
}

// endMember kills a member that does not take part in its group, so that it can be started again. It has everything on
// its disk that it has acknowledged.
func (l *Launcher) endMember(ctx context.Context, m serverDir) error {
	return l.onLocked(m, func() error {
		l.cfg.Logger.Warn("a member that takes no part in its group is started again", "server", m.id)
		l.behind.Delete(m.id)
		return l.stopIfRunning(ctx, m, (*server).kill)
	})
}

// endIfStuck ends a member of a group that has a majority if the member has not joined it for a minute, and is not at
// work: a server may hang after it has got no data.
func (l *Launcher) endIfStuck(ctx context.Context, m memberLook) error {
	if m.Missing || m.down || m.Online() || m.State == "" {
		l.behind.Delete(m.dir.id)
		return nil
	}
	since, _ := l.behind.LoadOrStore(m.dir.id, time.Now())
	if time.Since(since.(time.Time)) < galera.StartsAlone ||
		m.State != galera.Alone && time.Since(filesOf(m.dir.dir).changed) < galera.StartsAlone {
		return nil
	}
	return l.endMember(ctx, m.dir)
}

// unblock ends all sessions on a member if a lock holds it up for long.
func (l *Launcher) unblock(ctx context.Context, m memberLook) error {
	if !m.Blocked {
		l.blocked.Delete(m.dir.id)
		return nil
	}
	since, _ := l.blocked.LoadOrStore(m.dir.id, time.Now())
	if time.Since(since.(time.Time)) < galera.BlockedTime {
		return nil
	}
	l.blocked.Delete(m.dir.id)
	return l.onMember(ctx, m.dir, func(c memberConn) error {
		ended, err := galera.Unblock(c.ctx, c.conn)
		if ended {
			l.cfg.Logger.Warn("the sessions on a member were ended, because a lock kept it from applying changes",
				"server", m.dir.id)
		}
		return err
	})
}

// completeGalera starts the members that do not run, although others have a majority. One that is new, or was away for
// long, gets all data.
func (l *Launcher) completeGalera(ctx context.Context, sd serverDir, st state, all []memberLook) error {
	errs := []error{l.enableEvents(ctx, sd, all)}
	for n, m := range all {
		errs = append(errs, l.endIfStuck(ctx, m))
		if m.Online() {
			errs = append(errs, removeIfThere(m.dir.eventsFile()), l.unblock(ctx, m))
		}
		if !m.Missing && !m.down {
			continue
		}
		errs = append(errs, l.onLocked(m.dir, func() error {
			if m.Missing && st.Phase == phaseReady {
				return l.replaceMember(ctx, sd, st, n+1)
			}
			return l.startMember(ctx, m.dir)
		}))
	}
	return errors.Join(errs...)
}

// startMember starts a member that does not run.
func (l *Launcher) startMember(ctx context.Context, m serverDir, options ...string) error {
	own, err := m.loadState()
	if err != nil {
		return err
	}
	if last, ok := l.starts.Load(m.id); ok && time.Since(last.(time.Time)) < joinAgain {
		return nil
	}
	if s, err := findServer(ctx, m, l.owner); s != nil || err != nil {
		if s != nil {
			s.close()
		}
		return err
	}
	l.starts.Store(m.id, time.Now())
	log, level := readLogTail(m), startLevel(m)
	s, err := l.start(ctx, m, own, options...)
	if err != nil {
		return err
	}
	defer s.close()
	l.cfg.Logger.Log(ctx, level, "a member of a group is started", "server", m.id, "pid", s.pid,
		"logged_last", tellingLines(log))
	return nil
}

// beginGalera begins the group with the member that has the most transactions, when no member runs.
func (l *Launcher) beginGalera(ctx context.Context, sd serverDir, st state, all []memberLook) error {
	positions := make([]galera.Position, len(all))
	for n, m := range all {
		if m.Missing && st.Phase == phaseReady {
			return fmt.Errorf("no member runs, and only with all of them it can be told which one has every transaction: %w",
				m.Err)
		}
		own, err := m.dir.loadState()
		if err != nil {
			return err
		}
		b, err := l.programFor(m.dir, own)
		if err != nil {
			return err
		}
		if err := l.writeSettings(m.dir, own, b); err != nil {
			return err
		}
		if positions[n], err = l.position(ctx, m.dir, b); err != nil {
			return err
		}
	}
	first, err := galera.First(positions)
	if err == nil && first < 0 {
		err = errors.New("no member has all data")
	}
	if err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	m := all[first].dir
	return l.onLocked(m, func() error {
		l.cfg.Logger.Info("a group is begun", "server", m.id, "transactions", positions[first].String())
		return l.startMember(ctx, m, newCluster)
	})
}

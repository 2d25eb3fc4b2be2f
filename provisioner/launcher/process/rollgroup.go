package process

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// rolling is a change for which members of a group have to be restarted.
type rolling struct {
	due    func(state) bool // of a member
	change func(*state)
	limit  time.Duration // for a restarted server to come up, and for a member to join
	doing  string        // for users: "Restarting server %d of %d"
	// last is called before the last member is restarted. It may be nil. If switches is false, the group itself chooses
	// another primary when that member leaves: a group refuses one that has a later version than others.
	last     func() error
	switches bool
	// works is that of Upgrade, and may be nil. It is called only while a member that was restarted works on its files:
	// those of the others change as long as applications write.
	works func(progress string)
}

// roll restarts the members of a group one after the other, while the others accept writes: the primary last, after
// another member has become the primary. Afterwards, the same member is the primary as before, because applications may
// know the address of one alone. The caller holds the lock of the group.
func (l *Launcher) roll(ctx context.Context, sd serverDir, st state, r rolling, report func(string)) error {
	before := -1 // the primary
	for begun := false; ; begun = true {
		due, err := dueMembers(sd, st, r)
		if err != nil || len(due) == 0 && !begun {
			return err
		}
		next := -1
		all, err := l.awaitMembers(ctx, sd, st, r.limit, func(all []memberLook) bool {
			if len(due) == 0 {
				return allOnline(all)
			}
			next = mysqlgroup.NextToRestart(looks(all), due)
			return mysqlgroup.OthersOnline(looks(all), next)
		})
		if err != nil {
			return fmt.Errorf("wait until the other members are online: %w", err)
		}
		primary := mysqlgroup.Primary(looks(all))
		if before < 0 {
			before = primary
		}
		if len(due) == 0 {
			if primary == before || before < 0 || st.inGalera() { // of which all accept writes
				return nil
			}
			return l.switchPrimary(ctx, all, before)
		}
		if err := ended(ctx); err != nil {
			return err
		}
		progress := fmt.Sprintf(r.doing, len(all)-len(due)+1, len(all))
		report(progress)
		if len(due) == 1 && r.last != nil {
			if err := r.last(); err != nil {
				return err
			}
		}
		if next == primary && r.switches && !st.inGalera() {
			if err := l.switchPrimary(ctx, all, mysqlgroup.Other(looks(all), next)); err != nil {
				return err
			}
		}
		if err := l.restartMember(ctx, all[next].dir, r, progress); err != nil {
			return err
		}
		fault.Point("roll", "member restarted")
	}
}

// dueMembers returns which members, counted from 0, still have to be restarted. A member whose files are lost is
// replaced by one that is as the group is recorded to be.
func dueMembers(sd serverDir, st state, r rolling) (due []int, err error) {
	for n := range st.Group.Ports {
		own, err := sd.member(n + 1).loadState()
		if errors.Is(err, launcher.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if r.due(own) {
			due = append(due, n)
		}
	}
	return due, nil
}

// switchPrimary makes another member the primary, and ends the sessions of applications on the former one, which could
// only read.
func (l *Launcher) switchPrimary(ctx context.Context, all []memberLook, to int) error {
	l.cfg.Logger.Info("a member becomes the primary of its group", "server", all[to].dir.id)
	err := l.onMember(ctx, all[to].dir, func(c memberConn) error { return mysqlgroup.MakePrimary(c.ctx, c.conn) })
	if err != nil {
		return fmt.Errorf("make another member the primary: %w", err)
	}
	fault.Point("roll", "primary switched")
	for n, m := range all {
		if n == to || !m.Primary {
			continue
		}
		if err := l.onMember(ctx, m.dir, func(c memberConn) error {
			return mysqlgroup.EndSessions(c.ctx, c.conn)
		}); err != nil {
			return fmt.Errorf("end the sessions on the former primary: %w", err)
		}
	}
	return nil
}

// leave has a member leave its group, so that the others need not find out that it is gone.
func (l *Launcher) leave(ctx context.Context, m serverDir) error {
	return l.onMember(ctx, m, func(c memberConn) error { return mysqlgroup.Leave(c.ctx, c.conn) })
}

// restartMember stops a member, changes what is recorded of it, and returns when it is up.
func (l *Launcher) restartMember(ctx context.Context, m serverDir, r rolling, progress string) error {
	unlock, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	own, err := m.loadState()
	if err != nil {
		return err
	}
	next := own
	r.change(&next)
	if !own.inGalera() { // otherwise stopping it does that
		if err := l.leave(ctx, m); err != nil {
			l.cfg.Logger.Warn("a member that is restarted has not left its group", "error", err)
		}
	}
	if err := l.stopIfRunning(ctx, m, func(s *server, ctx context.Context) error {
		if err := roomToStart(m.dir, own, next.MemoryMB); err != nil {
			return err
		}
		return s.stop(ctx)
	}); err != nil {
		return err
	}
	fault.Point("roll", "member stopped")
	if err := m.saveState(next); err != nil {
		return err
	}
	s, _, err := l.ensureRunning(ctx, m, next)
	if err != nil {
		return err
	}
	defer s.close()
	if r.works != nil {
		latest, end := watchWork(m.dir, workInterval, func(string) {}, r.works)
		defer end()
		latest(progress)
	}
	return l.awaitUp(ctx, m, s, r.limit)
}

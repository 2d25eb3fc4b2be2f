package kubernetes

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"sync"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher/galera"
	"mysql-broker/provisioner/launcher/mysqld"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// A member on MariaDB joins its group, or begins it, as its server starts. A pod cannot know which of both is due, so
// its script waits for an order where it finds no group: see galera.sh.

// galeraScript is what the container of a member runs, and transferScript what servers run to copy all data.
var (
	//go:embed galera.sh
	galeraScript string
	//go:embed galeratransfer.sh
	transferScript string
)

// orderFile is where a server that waits writes its order, for galeraScript.
const orderFile = tmpDir + "/order"

// inGalera reports whether a server is a member of Galera, or such a group.
func (s *server) inGalera() bool { return s.state.inGalera() }

func (st state) inGalera() bool { return st.Group != nil && st.Flavour == mysqld.MariaDB }

// lasts returns for how long something has been the case for a member.
func lasts(since *sync.Map, m *server, holds bool) time.Duration {
	if !holds {
		since.Delete(m.podName())
		return 0
	}
	began, _ := since.LoadOrStore(m.podName(), time.Now())
	return time.Since(began.(time.Time))
}

// forgetMembers removes what lasts remembers of a group that is suspended or destroyed.
func (l *Launcher) forgetMembers(s *server) {
	for _, m := range s.members() {
		l.alone.Delete(m.podName())
		l.blocked.Delete(m.podName())
	}
}

// doGalera is doDue for a group on MariaDB.
func (l *Launcher) doGalera(ctx context.Context, s *server, all []mysqlgroup.Look) error {
	alone, blocked := make([]time.Duration, len(all)), make([]time.Duration, len(all))
	for n, m := range all {
		alone[n] = lasts(&l.alone, s.of(n+1), m.Err == nil && m.State == galera.Alone)
		blocked[n] = lasts(&l.blocked, s.of(n+1), m.Err == nil && m.Blocked)
	}
	due, err := galera.Decide(all, alone, blocked)
	if err != nil {
		return &silentError{fmt.Errorf("server %s: %w", s.id, err)}
	}
	if due.Begin {
		return l.beginGroup(ctx, s)
	}
	var errs []error
	each := func(members []int, do func(context.Context, *sql.Conn, *server, mysqlgroup.Look) error) {
		for _, n := range members {
			m := s.of(n + 1)
			errs = append(errs, l.onLocked(ctx, m, func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
				return do(ctx, conn, m, now)
			}))
		}
	}
	each(due.Unblock, func(ctx context.Context, conn *sql.Conn, m *server, now mysqlgroup.Look) error {
		if !now.Blocked {
			return nil
		}
		l.blocked.Delete(m.podName())
		ended, err := galera.Unblock(ctx, conn)
		if ended {
			l.cfg.Logger.Warn("the sessions on a member were ended, because a lock kept it from applying changes",
				"server", m.id, "member", m.at())
		}
		return err
	})
	each(due.End, func(ctx context.Context, conn *sql.Conn, m *server, now mysqlgroup.Look) error {
		if now.State != galera.Alone {
			return nil
		}
		l.alone.Delete(m.podName())
		l.cfg.Logger.Warn("a member that takes no part in its group is started again", "server", m.id, "member", m.at())
		fault.Point("group", "ends")
		return galera.End(ctx, conn)
	})
	each(due.Join, func(ctx context.Context, conn *sql.Conn, m *server, now mysqlgroup.Look) error {
		if !now.Out() {
			return nil
		}
		l.cfg.Logger.Info("a member joins its group", "server", m.id, "member", m.at())
		fault.Point("group", "joins")
		return galera.Give(ctx, conn, orderFile, galera.Join)
	})
	return errors.Join(errs...)
}

// beginGalera begins a group with one of its members, which all wait and are locked.
func (l *Launcher) beginGalera(ctx context.Context, s *server, conns []*sql.Conn, all []mysqlgroup.Look) error {
	first, err := galera.ToBegin(all, s.state.Phase == phaseReady)
	if err != nil {
		return &undecidedError{fmt.Errorf("server %s: %w", s.id, err)}
	}
	m := s.of(first + 1)
	l.cfg.Logger.Info("a group is begun", "server", s.id, "member", m.at(), "transactions", all[first].Executed)
	fault.Point("group", "begins")
	if err := galera.Give(ctx, conns[first], orderFile, galera.Begin); err != nil {
		return fmt.Errorf("server %s: %w", m.podName(), err)
	}
	return nil
}

// chooseLead makes the member the primary to which the Service leads, if it is online, or else another one.
func (l *Launcher) chooseLead(ctx context.Context, s *server, all []mysqlgroup.Look) {
	leads := s.leads
	if leads == nil {
		leads = &service{}
		if err := l.api.get(ctx, l.api.path(services, s.name), leads); err != nil && !isNotFound(err) {
			l.cfg.Logger.Debug("a Service cannot be read", "server", s.id, "error", err)
		}
	}
	now := -1
	if _, err := fmt.Sscan(leads.Spec.Selector[memberLabel], &now); err == nil {
		now--
	}
	galera.Lead(all, now)
}

// leadElsewhere leads applications to another member. Sessions on the former one end with its server.
func (l *Launcher) leadElsewhere(ctx context.Context, s *server, to int) error {
	var known service
	if err := l.api.get(ctx, l.api.path(services, s.name), &known); err != nil {
		return err
	}
	if err := l.expectWork(ctx, s); err != nil {
		return err
	}
	err := l.leadTo(ctx, s, &known, to+1)
	if isConflict(err) { // another broker was faster
		return nil
	}
	fault.Point("roll", "primary switched")
	return err
}

package kubernetes

import (
	"context"
	"database/sql"
	"errors"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// stopMembers is stopPod for a group: the primary stops last, and then has all transactions.
func (l *Launcher) stopMembers(ctx context.Context, s *server) error {
	l.groups.Delete(s.id)
	primary := mysqlgroup.Primary(l.lookAtMembers(ctx, s))
	var waits error
	for n, m := range s.members() {
		if n == primary {
			continue
		}
		err := l.stopPod(ctx, m)
		if e, ok := errors.AsType[*launcher.Error](err); ok && e.Action == launcher.Wait {
			waits = err
		} else if err != nil {
			return err
		}
	}
	if waits != nil || primary < 0 {
		return waits
	}
	if err := l.stopEvents(ctx, s.of(primary+1)); err != nil {
		return err
	}
	return l.stopPod(ctx, s.of(primary+1))
}

// stopEvents is due before the primary of a group stops. A broker that was paused does not do it to a server
// that has started since: it has lost its session, or looks again at what is recorded.
func (l *Launcher) stopEvents(ctx context.Context, m *server) error {
	var stale error
	err := l.onLocked(ctx, m, func(ctx context.Context, conn *sql.Conn, _ mysqlgroup.Look) error {
		if stale = l.expectWork(ctx, m); stale != nil {
			return nil
		}
		return mysqlgroup.StopEvents(ctx, conn)
	})
	if err != nil && stale == nil && !lost(err) { // it stops already
		l.cfg.Logger.Warn("a member that stops may still run events", "server", m.id, "error", err)
	}
	return stale
}

package kubernetes

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strconv"
	"time"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// rollAnnotation of a member's pod is the number of the change that it was created for. A pod with another one has to
// be replaced.
const rollAnnotation = "mysql-broker/roll"

// rolled returns the group with the next change, for which its members have to be restarted.
func (g *group) rolled() *group {
	next := *g
	next.Roll++
	return &next
}

// roll restarts the members of a group that have another number one after the other, while the others accept writes:
// the primary last, after another member has become the primary if it switches. It returns NotYet until all are online.
func (l *Launcher) roll(ctx context.Context, s *server, switches bool) error {
	due, found, err := l.duePods(ctx, s)
	if err != nil {
		return err
	}
	all, err := l.assembleFor(ctx, s)
	if err != nil {
		return err
	}
	if len(due) == 0 {
		if !mysqlgroup.AllOnline(all) {
			return launcher.NotYet(groupPoll, "Waiting until all servers are up to date")
		}
		return nil
	}
	next := mysqlgroup.NextToRestart(all, due)
	if !mysqlgroup.OthersOnline(all, next) {
		return launcher.NotYet(groupPoll, "Waiting until the other servers are up to date")
	}
	progress := fmt.Sprintf("Restarting server %d of %d", len(all)-len(due)+1, len(all))
	if switches && next == mysqlgroup.Primary(all) {
		if err := l.switchPrimary(ctx, s, next, mysqlgroup.Other(all, next)); err != nil {
			return err
		}
		return launcher.NotYet(groupPoll, progress)
	}
	if p := found[next]; leaving(p) == "" {
		if err := l.deletePod(ctx, s.of(next+1), p); err != nil {
			return err
		}
		fault.Point("roll", "pod deleted")
	}
	return launcher.NotYet(groupPoll, progress)
}

// duePods applies what the pods of a group are to be, and returns which members, counted from 0, have another one.
func (l *Launcher) duePods(ctx context.Context, s *server) (due []int, found []api.Pod, err error) {
	want := strconv.Itoa(s.state.Group.Roll)
	found = make([]api.Pod, len(s.state.Group.Members))
	for n, m := range s.members() {
		if err := l.applyWork(ctx, m, nil); err != nil {
			return nil, nil, err
		}
		err := l.api.Get(ctx, l.api.Path(api.Pods, m.podName()), &found[n])
		if api.IsNotFound(err) {
			return nil, nil, launcher.NotYet(groupPoll, "Waiting for a node")
		}
		if err != nil {
			return nil, nil, err
		}
		p := found[n]
		if p.Metadata.Annotations[rollAnnotation] != want {
			due = append(due, n)
			continue
		}
		if c := p.Condition("PodScheduled"); c.Status == "False" && !c.LastTransitionTime.IsZero() &&
			time.Since(c.LastTransitionTime) > l.cfg.PlaceTimeout {
			return nil, nil, launcher.NoRoom(fmt.Errorf("server %s: no node for the pod %s in %v: %s", s.id, m.podName(),
				l.cfg.PlaceTimeout, c.Message))
		}
		if i := slices.IndexFunc(p.Status.ContainerStatuses, func(c api.ContainerStatus) bool {
			return c.RestartCount >= restartsToFail && c.State.Running == nil
		}); i >= 0 {
			return nil, nil, ended(m, p.Status.ContainerStatuses[i])
		}
	}
	return due, found, nil
}

// switchPrimary makes another member the primary, and ends the sessions of applications on the former one, which could
// only read.
func (l *Launcher) switchPrimary(ctx context.Context, s *server, from, to int) error {
	l.cfg.Logger.Info("a member becomes the primary of its group", "server", s.id, "member", s.of(to+1).at())
	err := l.onLocked(ctx, s.of(to+1), func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
		if err := l.expectWork(ctx, s); err != nil || !now.Online() || now.Primary {
			return err
		}
		return mysqlgroup.MakePrimary(ctx, conn)
	})
	if err != nil {
		return fmt.Errorf("make another member the primary: %w", err)
	}
	fault.Point("roll", "primary switched")
	if err := l.onLocked(ctx, s.of(from+1), func(ctx context.Context, conn *sql.Conn, now mysqlgroup.Look) error {
		if now.Primary {
			return nil
		}
		return mysqlgroup.EndSessions(ctx, conn)
	}); err != nil {
		return fmt.Errorf("end the sessions on the former primary: %w", err)
	}
	return nil
}

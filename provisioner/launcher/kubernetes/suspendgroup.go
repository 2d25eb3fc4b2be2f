package kubernetes

import (
	"context"
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
	return l.stopPod(ctx, s.of(primary+1))
}

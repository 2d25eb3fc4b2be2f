package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqlgroup"
)

// memberLook is what a member says of itself.
type memberLook struct {
	mysqlgroup.Look

	dir  serverDir
	down bool // it does not run; known of Galera only
}

func looks(all []memberLook) []mysqlgroup.Look {
	found := make([]mysqlgroup.Look, len(all))
	for n, m := range all {
		found[n] = m.Look
	}
	return found
}

func countOnline(all []memberLook) int { return mysqlgroup.CountOnline(looks(all)) }

func allOnline(all []memberLook) bool { return mysqlgroup.AllOnline(looks(all)) }

func (l *Launcher) lookAtMembers(ctx context.Context, sd serverDir, st state) []memberLook {
	all := make([]memberLook, len(st.Group.Ports))
	var looking sync.WaitGroup
	for n := range all {
		looking.Go(func() { all[n] = l.lookAtMember(ctx, sd.member(n+1), st.Phase) })
	}
	looking.Wait()
	return all
}

func (l *Launcher) lookAtMember(ctx context.Context, m serverDir, of phase) memberLook {
	look := memberLook{dir: m}
	st, err := m.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase != of {
		look.Missing, look.Err = true, fmt.Errorf("server %s: %w", m.id, fs.ErrNotExist)
		return look
	}
	if _, err := os.Lstat(m.dataDir()); errors.Is(err, fs.ErrNotExist) {
		look.Missing, look.Err = true, err
		return look
	}
	ctx, cancel := context.WithTimeout(ctx, memberTime)
	defer cancel()
	if st.inGalera() {
		l.lookAtGalera(ctx, &look)
		return look
	}
	if err := l.onMember(ctx, m, func(c memberConn) (err error) {
		look.Look, err = mysqlgroup.Ask(c.ctx, c.conn)
		return err
	}); err != nil {
		look.Err = err
	}
	return look
}

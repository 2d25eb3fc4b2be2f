package process

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/launcher/mysqlgroup"
	"mysql-broker/provisioner/periodic"
)

// groupInterval is how often groups are looked at.
const groupInterval = time.Second

// keepGroups looks after the groups until the context ends: see the package mysqlgroup.
func (l *Launcher) keepGroups(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	var kept sync.Map // of ids
	status := &periodic.Status{What: "looking after groups of servers", Log: l.cfg.Logger}
	periodic.Run(ctx, periodic.Schedule{Every: groupInterval}, status, func(ctx context.Context) error {
		all, err := l.launchedDirs()
		for _, sd := range all {
			if !sd.isGroup() {
				continue
			}
			if _, already := kept.LoadOrStore(sd.id, nil); already {
				continue
			}
			working.Go(func() {
				defer kept.Delete(sd.id)
				defer l.seen.Delete(sd.id)
				l.keepGroup(ctx, sd)
			})
		}
		return err
	})
}

// keepGroup looks after one group until that is not to be kept running any more.
func (l *Launcher) keepGroup(ctx context.Context, sd serverDir) {
	status := &periodic.Status{What: "looking after a group of servers", Log: l.cfg.Logger.With("server", sd.id)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	periodic.Run(ctx, periodic.Schedule{Every: groupInterval}, status, func(ctx context.Context) error {
		lock, err := tryLock(sd.dir)
		if errors.Is(err, unix.EWOULDBLOCK) { // it is being launched or destroyed
			return nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			cancel()
			return nil
		}
		if err != nil {
			return err
		}
		defer lock.Close()
		st, err := sd.loadState()
		if err != nil || st.Phase != phaseReady {
			cancel()
			return nil
		}
		_, err = l.assemble(ctx, sd, st)
		return err
	})
}

// assemble looks at the members of a group once, does what is due, and returns what it saw. The caller holds the lock
// of the group.
func (l *Launcher) assemble(ctx context.Context, sd serverDir, st state) (all []memberLook, err error) {
	all = l.lookAtMembers(ctx, sd, st)
	l.seen.Store(sd.id, seenGroup{time.Now(), l.shown(st, all)})
	if st.inGalera() {
		return all, l.assembleGalera(ctx, sd, st, all)
	}
	due, err := mysqlgroup.Decide(looks(all), mysqlgroup.Group{Addresses: l.groupOf(st).Addresses,
		Ready: st.Phase == phaseReady, MostLogs: int64(st.StorageMB) << 20})
	if err != nil {
		return all, err
	}
	if due.Begin {
		return all, l.beginGroup(ctx, all)
	}
	var errs []error
	for _, n := range due.Replace {
		errs = append(errs, l.onLocked(all[n].dir, func() error { return l.replaceMember(ctx, sd, st, n+1) }))
	}
	for _, n := range due.LetIn {
		errs = append(errs, l.onMember(ctx, all[n].dir, func(c memberConn) error {
			return mysqlgroup.LetIn(c.ctx, c.conn)
		}))
	}
	for n, oldest := range due.Purge {
		errs = append(errs, l.onMember(ctx, all[n].dir, func(c memberConn) error {
			return mysqlgroup.Purge(c.ctx, c.conn, oldest)
		}))
	}
	if due.Join >= 0 {
		errs = append(errs, l.join(ctx, all[due.Join].dir))
	}
	return all, errors.Join(errs...)
}

// join lets a member join its group. If the server hangs meanwhile, it is killed, and then started again.
func (l *Launcher) join(ctx context.Context, m serverDir) error {
	l.cfg.Logger.Info("a member joins its group", "server", m.id)
	err := l.onMember(ctx, m, func(c memberConn) error { return mysqlgroup.Join(c.ctx, c.conn) })
	if mysqlgroup.Hung(ctx, err) {
		return errors.Join(err, l.stopIfRunning(ctx, m, (*server).kill))
	}
	return err
}

// beginGroup begins the group with the member that has all transactions of all members.
func (l *Launcher) beginGroup(ctx context.Context, all []memberLook) error {
	for _, first := range all {
		var has bool
		if err := l.onMember(ctx, first.dir, func(c memberConn) (err error) {
			if has, err = mysqlgroup.HasAll(c.ctx, c.conn, first.Look, looks(all)); err != nil || !has {
				return err
			}
			l.cfg.Logger.Info("a group is begun", "server", first.dir.id)
			return mysqlgroup.Begin(c.ctx, c.conn)
		}); err != nil || has {
			return err
		}
	}
	return mysqlgroup.ErrNoneHasAll
}

// replaceMember starts a member that has lost its data from an empty directory. It gets the data from the others. The
// caller holds the locks of the group and of the member.
func (l *Launcher) replaceMember(ctx context.Context, sd serverDir, st state, n int) error {
	program, err := l.programFor(sd, st)
	if err != nil {
		return err
	}
	m := sd.member(n)
	l.cfg.Logger.Warn("a member of a group that has lost its data is replaced", "server", m.id)
	if st.inGalera() {
		err = l.prepareMember(ctx, sd, st, n, program)
	} else {
		err = l.launchMember(ctx, sd, st, n, program, nil, func() {})
		if err == nil { // it copies files, instead of repeating all transactions that the others still know
			err = l.onMember(ctx, m, func(c memberConn) error {
				return c.exec("SET GLOBAL group_replication_clone_threshold=1")
			})
		}
	}
	if err != nil {
		return err
	}
	if err := l.memberReady(m); err != nil || !st.inGalera() {
		return err
	}
	return l.startMember(ctx, m)
}

// onLocked runs fn with the lock of a member. It does nothing if another broker has it.
func (l *Launcher) onLocked(m serverDir, fn func() error) error {
	lock, err := m.lockMember()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return fn()
}

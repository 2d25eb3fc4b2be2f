package process

import (
	"context"
	"errors"
	"io/fs"
	"strings"
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
				l.keepGroup(ctx, sd)
				l.forgetGroup(sd)
			})
		}
		return err
	})
}

// ofGroups are the maps by ids of groups or their members.
func (l *Launcher) ofGroups() []*sync.Map {
	return []*sync.Map{&l.seen, &l.events, &l.stalls, &l.stuck, &l.alone, &l.starts, &l.behind, &l.blocked}
}

// forgetGroup removes what this launcher remembers of a group that is suspended or destroyed, and of its members.
func (l *Launcher) forgetGroup(sd serverDir) {
	for _, remembered := range l.ofGroups() {
		for id := range remembered.Range {
			if id == sd.id || strings.HasPrefix(id.(string), sd.id+".") {
				remembered.Delete(id)
			}
		}
	}
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
	began := time.Now()
	all = l.lookAtMembers(ctx, sd, st)
	l.seen.Store(sd.id, seenGroup{time.Now(), l.shown(st, all)})
	if st.inGalera() {
		return all, l.assembleGalera(ctx, sd, st, all)
	}
	stuck := l.endStuck(ctx, sd, st, all, began)
	due, err := mysqlgroup.Decide(looks(all), mysqlgroup.Group{Addresses: l.groupOf(st).Addresses,
		Ready: st.Phase == phaseReady, MostLogs: int64(st.StorageMB) << 20})
	if err != nil {
		return all, errors.Join(err, stuck)
	}
	if due.Begin {
		return all, l.beginGroup(ctx, all)
	}
	errs := []error{stuck, l.endStalled(ctx, sd, st, all, began), l.enableEvents(ctx, sd, all)}
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

// endStalled kills a primary that is stalled, so that another member becomes the primary. It is then started again.
// began is when the look began.
func (l *Launcher) endStalled(ctx context.Context, sd serverDir, st state, all []memberLook, began time.Time) error {
	stall, _ := l.stalls.LoadOrStore(sd.id, &mysqlgroup.Stall{})
	n := stall.(*mysqlgroup.Stall).Suspect(looks(all), l.groupOf(st).Addresses, began)
	if n < 0 {
		return nil
	}
	m, lacks := all[n].dir, true
	if !all[n].Silent() {
		if err := l.onMember(ctx, m, func(c memberConn) (err error) {
			lacks, err = mysqlgroup.LacksApplied(c.ctx, c.conn, all[n].Look, looks(all))
			return err
		}); err != nil || !lacks {
			return err
		}
	}
	if now := l.lookAtMember(ctx, m, st.Phase); !all[n].Stays(now.Look) || all[n].Executed != now.Executed {
		return nil
	}
	l.cfg.Logger.Warn("a primary that commits nothing any more is started again", "server", m.id)
	return l.stopIfRunning(ctx, m, (*server).kill)
}

// endStuck kills a member that hangs, which is then started again. began is when the look began.
func (l *Launcher) endStuck(ctx context.Context, sd serverDir, st state, all []memberLook, began time.Time) error {
	if st.Phase != phaseReady { // nobody would start it
		return nil
	}
	stuck, _ := l.stuck.LoadOrStore(sd.id, &mysqlgroup.Stuck{})
	n := stuck.(*mysqlgroup.Stuck).Next(looks(all), l.groupOf(st).Addresses, began)
	if n < 0 {
		return nil
	}
	now := l.lookAtMember(ctx, all[n].dir, st.Phase)
	if !all[n].Stays(now.Look) {
		return nil
	}
	l.cfg.Logger.Warn("a member that gets no further is started again", "server", all[n].dir.id, "reason", now.State,
		"error", now.Err)
	return l.stopIfRunning(ctx, all[n].dir, (*server).kill)
}

// enableEvents has the primary, or the first member of Galera that is online, run the events that no member runs any
// more.
func (l *Launcher) enableEvents(ctx context.Context, sd serverDir, all []memberLook) error {
	events, _ := l.events.LoadOrStore(sd.id, &mysqlgroup.Events{})
	due := events.(*mysqlgroup.Events).Due(looks(all))
	if len(due) == 0 {
		return nil
	}
	return l.onMember(ctx, all[mysqlgroup.Primary(looks(all))].dir, func(c memberConn) error {
		return mysqlgroup.EnableEvents(c.ctx, c.conn, due)
	})
}

// beginGroup begins the group with the member that has all transactions of all members. If the server hangs meanwhile,
// it is killed, and then started again.
func (l *Launcher) beginGroup(ctx context.Context, all []memberLook) error {
	for _, n := range mysqlgroup.BeginOrder(looks(all)) {
		first, has := all[n], false
		err := l.onMember(ctx, first.dir, func(c memberConn) (err error) {
			if has, err = mysqlgroup.HasAll(c.ctx, c.conn, first.Look, looks(all)); err != nil || !has {
				return err
			}
			l.cfg.Logger.Info("a group is begun", "server", first.dir.id)
			return mysqlgroup.Begin(c.ctx, c.conn)
		})
		if mysqlgroup.Hung(ctx, err) {
			err = errors.Join(err, l.stopIfRunning(ctx, first.dir, (*server).kill))
		}
		if err != nil || has {
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

package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
	"golang.org/x/sys/unix"

	"mysql-broker/provisioner/periodic"
)

// groupInterval is how often groups are looked at.
const groupInterval = time.Second

// keepGroups looks after the groups until the context ends. What decides which member is the primary, and which ones
// belong to the group, is the group itself. The launcher lets members join that are in no group, replaces those that
// lost their data, and begins the group again if none is left.
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
	out := 0
	var silent []error
	for _, m := range all {
		switch {
		case m.out():
			out++
		case m.err != nil:
			silent = append(silent, m.err)
		}
	}
	switch {
	case countOnline(all) > 0:
		return all, l.complete(ctx, sd, st, all)
	case out == len(all):
		return all, l.beginGroup(ctx, all)
	case out+len(silent) == len(all):
		return all, fmt.Errorf("no member is in a group, and only with all of them it can be told which one has every "+
			"transaction: %w", errors.Join(silent...))
	}
	return all, nil // a member is joining, or about to find out that it has no majority
}

// complete has the members join that are in no group, although others are.
func (l *Launcher) complete(ctx context.Context, sd serverDir, st state, all []memberLook) error {
	var errs []error
	// One after the other: MySQL 9.7 may stop to commit if a member joins while another one recovers.
	joining := slices.ContainsFunc(all, func(m memberLook) bool { return m.state == "RECOVERING" })
	for n, m := range all {
		switch {
		case m.missing && st.Phase == phaseReady:
			errs = append(errs, l.onLocked(m.dir, func() error { return l.replaceMember(ctx, sd, st, n+1) }))
		case m.out():
			if !joining && !knows(all, st.Group.Ports[n]) {
				joining = true
				errs = append(errs, l.join(ctx, m.dir))
			}
		case m.online() && m.offline: // since it was cut off
			errs = append(errs, l.onMember(ctx, m.dir, func(c memberConn) error {
				return c.exec("SET GLOBAL offline_mode=OFF")
			}))
		}
	}
	return errors.Join(errs...)
}

// knows reports whether a member that is online still knows one with that port, which was killed and cannot join yet.
func knows(all []memberLook, port int) bool {
	return slices.ContainsFunc(all, func(m memberLook) bool {
		return m.online() && slices.Contains(strings.Split(m.ports, ","), strconv.Itoa(port))
	})
}

// join lets a member join its group. If the server hangs meanwhile, it is killed, and then started again. A broker that
// died in beginGroup has left the member set to begin a group, which would be a second one.
func (l *Launcher) join(ctx context.Context, m serverDir) error {
	l.cfg.Logger.Info("a member joins its group", "server", m.id)
	err := l.onMember(ctx, m, func(c memberConn) error {
		return c.exec("STOP GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group=OFF",
			"START GROUP_REPLICATION")
	})
	hung, isError := errors.AsType[*mysql.MySQLError](err)
	if isError && hung.Number == errStarting || errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return errors.Join(err, l.stopIfRunning(ctx, m, (*server).kill))
	}
	return err
}

// errStarting is the number of the error "Another instance of START/STOP GROUP_REPLICATION command is executing".
const errStarting = 3663

// beginGroup begins the group with the member that has all transactions of all members. A transaction that was
// acknowledged is on the disk of the member that was the primary then.
func (l *Launcher) beginGroup(ctx context.Context, all []memberLook) error {
	for _, first := range all {
		has := true
		err := l.onMember(ctx, first.dir, func(c memberConn) error {
			for _, other := range all {
				var subset bool
				if err := c.conn.QueryRowContext(c.ctx, "SELECT GTID_SUBSET(?, ?)", other.executed,
					first.executed).Scan(&subset); err != nil {
					return err
				}
				has = has && subset
			}
			if !has {
				return nil
			}
			l.cfg.Logger.Info("a group is begun", "server", first.dir.id)
			begin := c.exec("STOP GROUP_REPLICATION", "SET GLOBAL group_replication_bootstrap_group=ON",
				"START GROUP_REPLICATION")
			return errors.Join(begin, c.exec("SET GLOBAL group_replication_bootstrap_group=OFF",
				"SET GLOBAL offline_mode=OFF"))
		})
		if has || err != nil {
			return err
		}
	}
	return errors.New("no member has the transactions of all others: an operator has to choose one")
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

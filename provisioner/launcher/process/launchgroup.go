package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// groupPoll is how often a group that is being launched is looked at.
const groupPoll = 100 * time.Millisecond

// launchGroup is Launch for a group. Members that are not ready yet hold nobody's data, so all start again.
func (l *Launcher) launchGroup(ctx context.Context, sd serverDir, spec launcher.Spec, program mysqld.Binary,
	report func(progress string)) (launcher.Endpoint, error) {
	unlock, err := sd.makeAndLock(ctx)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	defer unlock()
	st, err := sd.reported(ctx, "Preparing the data directories", report)
	if err != nil {
		return launcher.Endpoint{}, err
	}
	resumed := st.Phase == phaseSuspended
	if resumed {
		if err := l.resumeGroup(ctx, sd, &st, spec); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	if st.Phase != phaseReady {
		if err := sd.mayStartOver(); err != nil {
			return launcher.Endpoint{}, err
		}
		if err := runsGroups(versionOf(program)); err != nil {
			return launcher.Endpoint{}, &launcher.Error{Action: launcher.GiveUp, Sentence: noProgram,
				Err: fmt.Errorf("server %s: %w", sd.id, err)}
		}
		st = state{Phase: phaseLaunching, Flavour: program.Flavour, Version: program.Version,
			Host: cmp.Or(st.Host, l.cfg.Host), MemoryMB: spec.MemoryMB, StorageMB: spec.StorageMB, Labels: spec.Labels}
		if err := l.launchMembers(ctx, sd, &st, spec, program, report); err != nil {
			return launcher.Endpoint{}, err
		}
	}
	report("Waiting until the servers form a group")
	// Of Galera, the member that has most transactions starts first, and the others are addresses of the endpoint too.
	if err := l.awaitGroup(ctx, sd, st, resumed && st.inGalera()); err != nil {
		return launcher.Endpoint{}, err
	}
	fault.Point("launch", "group formed")
	if err := l.membersReady(sd, st); err != nil {
		return launcher.Endpoint{}, err
	}
	return l.answerFor(ctx, sd, st, spec)
}

// launchMembers starts all members from empty data directories. Their ports are chosen first, because each member knows
// all.
func (l *Launcher) launchMembers(ctx context.Context, sd serverDir, st *state, spec launcher.Spec,
	program mysqld.Binary, report func(progress string)) error {
	if err := l.clearMembers(ctx, sd); err != nil {
		return err
	}
	st.Group = &group{Name: uuid.NewString()}
	for n := 1; n <= spec.Members; n++ {
		own, err := l.choosePorts(ctx, sd.member(n), *st)
		if err != nil {
			return err
		}
		st.Group.Ports = append(st.Group.Ports, own.Port)
		st.Group.ProtocolPorts = append(st.Group.ProtocolPorts, own.ProtocolPort)
	}
	if err := sd.saveState(*st); err != nil {
		return err
	}
	fault.Point("launch", "ports chosen")
	if err := l.writeKeys(sd.member(1), st.Host); err != nil {
		return err
	}
	starting := sync.OnceFunc(func() { report("Starting the servers") })
	if st.inGalera() {
		return l.launchGalera(ctx, sd, *st, spec, program, starting)
	}
	var all errgroup.Group
	for n := 1; n <= spec.Members; n++ {
		all.Go(func() error {
			var admin []byte
			if n == 1 { // the others get the account from it
				admin = mysqld.AdminSQL(spec.AdminUser, spec.AdminPassword)
			}
			return l.launchMember(ctx, sd, *st, n, program, admin, starting)
		})
	}
	return all.Wait()
}

// clearMembers removes what an earlier attempt has left of the members.
func (l *Launcher) clearMembers(ctx context.Context, sd serverDir) error {
	earlier, err := sd.loadState()
	if err != nil && !errors.Is(err, launcher.ErrNotFound) {
		return err
	}
	release, err := l.retireMembers(ctx, sd, earlier)
	if err != nil {
		return err
	}
	defer release()
	if err := errors.Join(os.RemoveAll(sd.membersDir()), os.Mkdir(sd.membersDir(), traversable)); err != nil {
		return fmt.Errorf("server %s: %w", sd.id, err)
	}
	return nil
}

// launchMember starts one member from an empty data directory. The caller holds the lock of the group.
func (l *Launcher) launchMember(ctx context.Context, sd serverDir, st state, n int, program mysqld.Binary,
	admin []byte, starting func()) error {
	m := sd.member(n)
	own := st
	own.Phase, own.Member = phaseLaunching, n
	own.Port, own.ProtocolPort = st.Group.Ports[n-1], st.Group.ProtocolPorts[n-1]
	if n > 1 || !m.hasKeys() {
		if err := l.copyKeys(sd.memberWithKeys(n, len(st.Group.Ports)), m); err != nil {
			return fmt.Errorf("server %s: %w", m.id, err)
		}
	}
	written, err := l.prepare(ctx, m, &own, program)
	if err != nil {
		return err
	}
	if own.Port != st.Group.Ports[n-1] {
		return fmt.Errorf("server %s: another program has its port", m.id)
	}
	password, err := m.groupPassword()
	if err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	if err := l.owner.writeSecret(m.initFile(), slices.Concat(admin, mysqld.GroupSQL(own.Flavour, password))); err != nil {
		return fmt.Errorf("server %s: %w", m.id, err)
	}
	if err := l.startAndAwait(ctx, m, own, starting, "--init-file="+m.initFile(), "--super-read-only=OFF"); err != nil {
		return err
	}
	// What the group writes must not come before this.
	return errors.Join(l.onMember(ctx, m, func(c memberConn) error { return c.exec("SET GLOBAL super_read_only=ON") }),
		os.Remove(m.initFile()), wait(written))
}

func (d serverDir) hasKeys() bool {
	_, err := os.Stat(d.keyFile())
	return err == nil
}

// memberWithKeys returns a member other than the nth whose keys can be copied.
func (d serverDir) memberWithKeys(n, members int) serverDir {
	for other := 1; other <= members; other++ {
		if other != n && d.member(other).hasKeys() {
			return d.member(other)
		}
	}
	return d.member(1)
}

// membersReady records that the members, and then the group, are kept running.
func (l *Launcher) membersReady(sd serverDir, st state) error {
	for n := range st.Group.Ports {
		if err := l.memberReady(sd.member(n + 1)); err != nil {
			return err
		}
	}
	return nil
}

func (l *Launcher) memberReady(m serverDir) error {
	st, err := m.loadState()
	if errors.Is(err, launcher.ErrNotFound) || err == nil && st.Phase == phaseReady {
		return nil
	}
	if err != nil {
		return err
	}
	l.settled.Store(m.id, nil)
	st.Phase = phaseReady
	return m.saveState(st)
}

// awaitGroup returns when all members of a group are online, or when a group that was launched before has a primary,
// unless it is to be whole.
func (l *Launcher) awaitGroup(ctx context.Context, sd serverDir, st state, whole bool) error {
	_, err := l.awaitMembers(ctx, sd, st, l.cfg.LaunchTimeout, func(all []memberLook) bool {
		online := countOnline(all)
		return online == len(all) || online > 0 && st.Phase == phaseReady && !whole
	})
	return err
}

// awaitMembers looks after a group until its members are as wanted. The caller holds the lock of the group.
func (l *Launcher) awaitMembers(ctx context.Context, sd serverDir, st state, limit time.Duration,
	wanted func([]memberLook) bool) ([]memberLook, error) {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		all, err := l.assemble(limited, sd, st)
		if wanted(all) {
			return all, nil
		}
		for _, m := range all {
			if m.Err != nil && !m.Missing && st.Phase == phaseReady {
				if s, err := l.keepRunning(limited, m.dir); err == nil { // what is wrong shows at the next look
					s.close()
				}
			}
		}
		select {
		case <-limited.Done():
			return nil, fmt.Errorf("server %s: %d of its members are online: %w", sd.id, countOnline(all),
				cmp.Or(err, context.Cause(limited)))
		case <-time.After(groupPoll):
		}
	}
}

// lockMember takes the lock of a member whose directory may be missing.
func (d serverDir) lockMember() (*os.File, error) {
	if err := os.Mkdir(d.dir, traversable); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return tryLock(d.dir)
}

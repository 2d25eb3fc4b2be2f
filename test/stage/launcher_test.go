//go:build faults

package stage

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"mysql-broker/provisioner/fault"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/mysqld"
)

// launcherName is the name and kind of the played launcher.
const launcherName = "stage"

// playedServers are the dedicated servers of the stage. They outlive brokers.
type playedServers struct {
	flavour  string
	versions []launcher.Version

	mu       sync.Mutex // guards what follows, and all servers except their turn
	machines []*machine
	servers  map[string]*playedServer
	notes    map[string][]byte
}

type playedServer struct {
	turn    chan struct{} // holds a value while a call changes the server
	phase   phase
	started bool // it has its admin account: before, nobody reaches a real one
	kept    bool
	record  string
	version string
	spec    launcher.Spec
	machine *machine
	locked  []string // accounts that are locked while it does not run
}

// phase is what is recorded of a server, as by the process launcher.
type phase string

const (
	launching  phase = "launching"
	ready      phase = "ready"
	suspended  phase = "suspended"
	upgrading  phase = "upgrading"
	destroying phase = "destroying"
)

// casting configures the played launcher for one broker.
type casting struct {
	servers *playedServers
	cut     *cutter
}

func (c casting) Open(launcher.Options) (launcher.Launcher, error) {
	return &played{c.servers, c.cut}, nil
}

func (c casting) Beside(launcher.Configured) error { return nil }

// played is a launcher whose servers run before they are launched, and are cleared and handed out again when they are
// destroyed. It passes the fault points of the process launcher. A broker that is killed at one has no launcher any more.
type played struct {
	*playedServers
	cut *cutter
}

var (
	_ launcher.Stopper  = (*played)(nil)
	_ launcher.Upgrader = (*played)(nil)
)

// take returns a server for a change, when no other call changes it. create makes it if there is none.
func (l *played) take(ctx context.Context, id string, create bool) (s *playedServer, release func(), err error) {
	for {
		if err := l.cut.pass(); err != nil {
			return nil, nil, err
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		l.mu.Lock()
		s = l.servers[id]
		if s == nil && create {
			s = &playedServer{turn: make(chan struct{}, 1)}
			l.servers[id] = s
		}
		l.mu.Unlock()
		if s == nil {
			return nil, nil, fmt.Errorf("server %s: %w", id, launcher.ErrNotFound)
		}
		select {
		case s.turn <- struct{}{}:
		case <-ctx.Done():
			return nil, nil, context.Cause(ctx)
		}
		l.mu.Lock()
		there := l.servers[id] == s
		l.mu.Unlock()
		release = func() { <-s.turn }
		if there {
			return s, release, nil
		}
		release() // it was destroyed meanwhile
	}
}

// set changes what is recorded of a server.
func (l *played) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

func (l *played) Launch(ctx context.Context, spec launcher.Spec, report func(string)) (e launcher.Endpoint, err error) {
	if err := mysqld.CheckAdmin(spec.AdminUser, spec.AdminPassword); err != nil {
		return e, err
	}
	version, err := l.offered(spec)
	if err != nil {
		return e, err
	}
	s, release, err := l.take(ctx, spec.ID, true)
	if err != nil {
		return e, err
	}
	defer release()
	fault.Point("launch", "directory made")
	if err := l.tell(ctx, report, "Preparing the data directory"); err != nil {
		l.set(func() {
			if s.phase == "" { // another broker may have destroyed it
				delete(l.servers, spec.ID)
			}
		})
		return e, err
	}
	if err := l.abandonUpgrade(ctx, s); err != nil {
		return e, err
	}
	if s.phase == suspended {
		if err := l.resume(ctx, s, spec); err != nil {
			return e, err
		}
	}
	if s.phase != ready {
		err = l.begin(ctx, s, spec, version, report)
	} else {
		err = l.tell(ctx, report, "Starting mysqld")
	}
	if err != nil {
		return e, err
	}
	report("Securing the admin account")
	if err := l.checkAdmin(ctx, s, spec); err != nil {
		return e, err
	}
	fault.Point("launch", "answers")
	l.set(func() { s.phase = ready })
	return s.machine.endpoint(), nil
}

// tell reports progress. Then another broker may have the work.
func (l *played) tell(ctx context.Context, report func(string), progress string) error {
	report(progress)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return l.cut.pass()
}

// begin makes a new server, or begins again with one that is not ready.
func (l *played) begin(ctx context.Context, s *playedServer, spec launcher.Spec, version string,
	report func(string)) error {
	switch {
	case s.kept:
		return fmt.Errorf("server %s: cannot start over: %w", spec.ID, launcher.ErrKept)
	case spec.BinaryLogs:
		return errBinaryLogs
	}
	l.set(func() { s.phase, s.started, s.version, s.spec = launching, false, version, spec })
	if !l.lend(s, spec.ID) {
		return launcher.NoRoom(fmt.Errorf("server %s: all machines of the stage are in use", spec.ID))
	}
	fault.Point("launch", "port chosen")
	if err := s.machine.reset(ctx); err != nil {
		return err
	}
	fault.Point("launch", "data copied")
	if err := s.machine.resize(ctx, spec.MemoryMB); err != nil {
		return err
	}
	fault.Point("launch", "password written")
	admin := strings.Split(strings.TrimSpace(string(mysqld.AdminSQL(spec.AdminUser, spec.AdminPassword))), "\n")
	if err := s.machine.exec(ctx, admin...); err != nil {
		return err
	}
	l.set(func() { s.started = true })
	fault.Point("launch", "process started")
	return l.tell(ctx, report, "Starting mysqld")
}

// errBinaryLogs is returned for servers that are to keep binary logs: a running mysqld does not begin to.
var errBinaryLogs = &launcher.Error{Action: launcher.GiveUp, Sentence: "Servers of the stage keep no binary logs.",
	Err: errors.New("the played launcher has no binary logs")}

// lend gives a machine to a server that has none. It reports whether there is one.
func (l *played) lend(s *playedServer, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range l.machines {
		if s.machine == nil && m.borrower == "" {
			s.machine, m.borrower = m, id
		}
	}
	return s.machine != nil
}

// resume has a suspended server run again.
func (l *played) resume(ctx context.Context, s *playedServer, spec launcher.Spec) error {
	if err := s.machine.resize(ctx, spec.MemoryMB); err != nil {
		return err
	}
	fault.Point("launch", "resumed")
	if err := l.open(ctx, s); err != nil {
		return err
	}
	l.set(func() { s.phase, s.spec = ready, spec })
	return nil
}

// open unlocks the accounts of a server that did not run.
func (l *played) open(ctx context.Context, s *playedServer) error {
	if err := s.machine.alter(ctx, s.locked, "UNLOCK"); err != nil {
		return err
	}
	l.set(func() { s.locked = nil })
	return nil
}

// shut locks the accounts of a server, which does not run any more.
func (l *played) shut(ctx context.Context, s *playedServer) error {
	locked, err := s.machine.lock(ctx)
	l.set(func() { s.locked = append(s.locked, locked...) })
	return err
}

func (l *played) checkAdmin(ctx context.Context, s *playedServer, spec launcher.Spec) error {
	as := s.machine.MySQL
	as.User, as.Password = spec.AdminUser, spec.AdminPassword
	db, err := as.Open()
	if err != nil {
		return err
	}
	defer db.Close()
	if err := db.PingContext(ctx); err != nil {
		return fmt.Errorf("server %s: log in as its admin account: %w", spec.ID, err)
	}
	return nil
}

// running returns a server that runs, for a change.
func (l *played) running(ctx context.Context, id string) (s *playedServer, release func(), err error) {
	s, release, err = l.take(ctx, id, false)
	if err != nil {
		return nil, nil, err
	}
	if s.phase != ready && s.phase != upgrading {
		release()
		return nil, nil, fmt.Errorf("server %s: it is %s: %w", id, s.phase, launcher.ErrNotFound)
	}
	return s, release, nil
}

func (l *played) Endpoint(_ context.Context, id string) (e launcher.Endpoint, err error) {
	if err := l.cut.pass(); err != nil {
		return e, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.servers[id]
	if s == nil || s.phase == suspended || s.phase == destroying || !s.started {
		return e, fmt.Errorf("server %s: %w", id, launcher.ErrNotFound)
	}
	return s.machine.endpoint(), nil
}

func (l *played) Starting(string) bool { return false }

func (l *played) Resize(ctx context.Context, spec launcher.Spec, report func(string)) (e launcher.Endpoint, err error) {
	s, release, err := l.running(ctx, spec.ID)
	if err != nil {
		return e, err
	}
	defer release()
	if spec.BinaryLogs {
		return e, errBinaryLogs
	}
	if err := l.abandonUpgrade(ctx, s); err != nil {
		return e, err
	}
	if s.spec.MemoryMB != spec.MemoryMB {
		if err := l.tell(ctx, report, "Stopping mysqld"); err != nil {
			return e, err
		}
		if err := s.machine.endSessions(ctx); err != nil {
			return e, err
		}
		fault.Point("resize", "stopped")
		if err := s.machine.resize(ctx, spec.MemoryMB); err != nil {
			return e, err
		}
	}
	l.set(func() { s.spec = spec })
	fault.Point("resize", "limits recorded")
	report("Starting mysqld")
	return s.machine.endpoint(), l.checkAdmin(ctx, s, spec)
}

// ChangeAdminPassword implements launcher.Launcher. It stores no password.
func (l *played) ChangeAdminPassword(ctx context.Context, id, _ string, change func(context.Context) error) error {
	_, release, err := l.running(ctx, id)
	if err == nil {
		defer release()
		err = change(ctx)
	}
	return err
}

func (l *played) Suspend(ctx context.Context, id string) error {
	s, release, err := l.take(ctx, id, false)
	if err != nil {
		return err
	}
	defer release()
	if err := l.abandonUpgrade(ctx, s); err != nil {
		return err
	}
	switch s.phase {
	case ready:
		l.set(func() { s.phase = suspended })
		fault.Point("suspend", "recorded")
	case suspended:
	default:
		return fmt.Errorf("server %s: it is %s: %w", id, s.phase, launcher.ErrNotFound)
	}
	if err := l.shut(ctx, s); err != nil {
		return err
	}
	fault.Point("suspend", "stopped")
	return nil
}

func (l *played) Destroy(ctx context.Context, id string) error { return l.destroy(ctx, id, true) }

func (l *played) DestroyUnused(ctx context.Context, id string) error {
	return l.destroy(ctx, id, false)
}

func (l *played) destroy(ctx context.Context, id string, used bool) error {
	s, release, err := l.take(ctx, id, false)
	if errors.Is(err, launcher.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	if s.kept && !used {
		return fmt.Errorf("server %s: %w", id, launcher.ErrKept)
	}
	l.set(func() { s.phase = destroying })
	fault.Point("destroy", "recorded")
	if s.machine != nil {
		if err := s.machine.reset(ctx); err != nil {
			return err
		}
	}
	fault.Point("destroy", "stopped")
	l.set(func() {
		if s.machine != nil {
			s.machine.borrower = ""
		}
		delete(l.servers, id)
	})
	fault.Point("destroy", "moved away")
	return nil
}

func (l *played) Keep(ctx context.Context, id string) error {
	s, release, err := l.take(ctx, id, false)
	if err == nil {
		defer release()
		l.set(func() { s.kept = true })
	}
	return err
}

func (l *played) List(context.Context) ([]string, error) {
	if err := l.cut.pass(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Sorted(maps.Keys(l.servers)), nil
}

func (l *played) SignedBy(_ context.Context, ca []byte) (ids []string, err error) {
	if err := l.cut.pass(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range l.servers {
		if s.phase == ready && s.machine.CA == string(ca) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (l *played) Record(_ context.Context, id, text string) (err error) {
	if err := l.cut.pass(); err != nil {
		return err
	}
	l.set(func() {
		if s := l.servers[id]; s != nil {
			s.record = text
		} else {
			err = launcher.ErrNotFound
		}
	})
	return err
}

func (l *played) Records(context.Context) (map[string]string, error) {
	if err := l.cut.pass(); err != nil {
		return nil, err
	}
	records := map[string]string{}
	l.set(func() {
		for id, s := range l.servers {
			if s.record != "" {
				records[id] = s.record
			}
		}
	})
	return records, nil
}

func (l *played) WriteNote(_ context.Context, name string, content []byte) error {
	if err := cmp.Or(l.cut.pass(), launcher.CheckNoteName(name)); err != nil {
		return err
	}
	l.set(func() { l.notes[name] = append([]byte{}, content...) })
	return nil
}

func (l *played) ReadNote(_ context.Context, name string) ([]byte, error) {
	if err := cmp.Or(l.cut.pass(), launcher.CheckNoteName(name)); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.notes[name]), nil
}

func (l *played) Close() {}

func (l *played) StartAll(context.Context) error { return nil }

func (l *played) StopAll(context.Context) error { return nil }

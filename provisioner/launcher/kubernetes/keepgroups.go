package kubernetes

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/kubernetes/api"
	"mysql-broker/provisioner/launcher/mysqlgroup"
	"mysql-broker/provisioner/periodic"
)

const (
	groupInterval = 2 * time.Second
	noGroups      = 10 * time.Second // the pause if there is no group
	lookAge       = 10 * time.Second // for how long what was seen of a group says what it is like now

	// missingLate is for how long a member may not respond before its objects are corrected: its volume may be gone.
	missingLate = 15 * time.Second

	addressAge = time.Minute // after which the Service of a group is read again

	groupsSelector = serversSelector + "," + memberLabel
)

// keptGroup is what the supervision remembers of a group.
type keptGroup struct {
	status  *periodic.Status
	server  *server // nil if it has to be read
	version string  // of the Secret
	working bool

	primary *api.Service // nil if it has to be read
	read    time.Time    // when
	missing time.Time    // since when a member does not respond; zero if all do
	events  mysqlgroup.Events
	stall   mysqlgroup.Stall
	stuck   mysqlgroup.Stuck

	undecided *periodic.Status // of an undecidedError, which is logged also if the group fails in another way already
}

// keepGroups looks after the groups until the context ends: see the package mysqlgroup.
func (l *Launcher) keepGroups(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	var mu sync.Mutex // of kept
	kept := map[string]*keptGroup{}
	var listed time.Time
	status := &periodic.Status{What: "looking after groups of servers", Log: l.cfg.Logger}
	periodic.Run(ctx, periodic.Schedule{Every: groupInterval}, status, func(ctx context.Context) error {
		mu.Lock()
		none := len(kept) == 0
		mu.Unlock()
		if none && time.Since(listed) < noGroups {
			return nil
		}
		listed = time.Now()
		there := map[string]api.Metadata{}
		if err := l.api.ListMetadata(ctx, api.Secrets, groupsSelector, func(m api.Metadata) {
			s := server{secret: api.Secret{Metadata: m}}
			if s.readState() == nil && s.state.Phase == phaseReady && m.DeletionTimestamp.IsZero() {
				there[m.Labels[serverLabel]] = m
			}
		}); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		for id, g := range kept {
			if _, still := there[id]; !still && !g.working {
				delete(kept, id)
				l.groups.Delete(id)
			}
		}
		for id, m := range there {
			g := kept[id]
			if g == nil {
				g = &keptGroup{status: &periodic.Status{What: "looking after a group of servers",
					Log: l.cfg.Logger.With("server", id)}, undecided: &periodic.Status{What: "beginning a group of servers again",
					Log: l.cfg.Logger.With("server", id), Level: slog.LevelError, EachError: true}}
				kept[id] = g
			}
			if g.working {
				continue
			}
			g.working = true
			working.Go(func() {
				g.status.Report(ctx, l.keepGroup(ctx, g, id, m.ResourceVersion))
				mu.Lock()
				defer mu.Unlock()
				g.working = false
			})
		}
		return nil
	})
}

// keepGroup looks after a group once.
func (l *Launcher) keepGroup(ctx context.Context, g *keptGroup, id, version string) error {
	if g.server == nil || g.version != version {
		s, err := l.find(ctx, id)
		if errors.Is(err, launcher.ErrNotFound) || err == nil && (s.state.Phase != phaseReady || s.state.Group == nil) {
			return nil
		}
		if err != nil {
			return err
		}
		g.server, g.version = s, version
	}
	if g.primary == nil || time.Since(g.read) > addressAge {
		g.primary, g.read = &api.Service{}, time.Now()
		if err := l.api.Get(ctx, l.api.Path(api.Services, g.server.name), g.primary); err != nil {
			g.primary = nil
			return err
		}
	}
	began := time.Now()
	all := l.look(ctx, g.server)
	var leads error // first, because applications wait for it, and to join takes seconds
	if primary := mysqlgroup.Primary(all); primary >= 0 {
		if leads = l.leadTo(ctx, g.server, g.primary, primary+1); leads != nil {
			g.primary = nil
		}
		if api.IsConflict(leads) { // another broker was faster
			leads = nil
		}
	}
	stalled, stuck := l.endStalled(ctx, g, all, began), l.endStuck(ctx, g, all, began)
	events, due := l.enableEvents(ctx, g, all), l.doDue(ctx, g.server, all)
	if undecided, ok := errors.AsType[*undecidedError](due); ok {
		g.undecided.Report(ctx, undecided)
	} else if mysqlgroup.Primary(all) >= 0 {
		g.undecided.Report(ctx, nil)
	}
	return errors.Join(leads, stalled, stuck, events, due, l.restoreMembers(ctx, g, all))
}

// enableEvents has the primary run the events that no member runs any more.
func (l *Launcher) enableEvents(ctx context.Context, g *keptGroup, all []mysqlgroup.Look) error {
	due := g.events.Due(all)
	if len(due) == 0 {
		return nil
	}
	return l.onMember(ctx, g.server.of(mysqlgroup.Primary(all)+1), joinTime,
		func(ctx context.Context, conn *sql.Conn) error { return mysqlgroup.EnableEvents(ctx, conn, due) })
}

// restoreMembers creates what is missing of the objects of a group of which a member does not respond for long.
func (l *Launcher) restoreMembers(ctx context.Context, g *keptGroup, all []mysqlgroup.Look) error {
	missing := false
	for _, m := range all {
		missing = missing || m.Err != nil
	}
	switch {
	case !missing:
		g.missing = time.Time{}
	case g.missing.IsZero():
		g.missing = time.Now()
	case time.Since(g.missing) > missingLate:
		g.missing = time.Now()
		err := l.makeGroup(ctx, g.server)
		if e, ok := errors.AsType[*launcher.Error](err); ok && e.Action == launcher.Wait {
			return nil
		}
		return err
	}
	return nil
}

// seenGroup is what was seen of a group last.
type seenGroup struct {
	at      time.Time
	members []launcher.Member
}

// Members implements launcher.Grouper.
func (l *Launcher) Members(ctx context.Context, ids ...string) (map[string][]launcher.Member, error) {
	found := map[string][]launcher.Member{}
	var looking sync.WaitGroup
	var mu sync.Mutex
	atOnce := make(chan struct{}, looksAtOnce)
	err := l.eachGroup(ctx, ids, func(s *server) {
		looking.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			members := l.seenMembers(ctx, s)
			mu.Lock()
			defer mu.Unlock()
			found[s.id] = members
		})
	})
	looking.Wait()
	return found, errors.Join(err, ctx.Err())
}

// seenMembers returns what was seen of the members of a group within the last seconds, or looks at them.
func (l *Launcher) seenMembers(ctx context.Context, s *server) []launcher.Member {
	if seen, ok := l.groups.Load(s.id); ok && l.cfg.Supervise && time.Since(seen.(seenGroup).at) < lookAge {
		return seen.(seenGroup).members
	}
	return l.shownMembers(s, l.lookAtMembers(ctx, s))
}

// eachGroup calls each with the groups that have these ids and run, or with all that run if there is no id.
func (l *Launcher) eachGroup(ctx context.Context, ids []string, each func(*server)) error {
	ifRuns := func(s *server) {
		if s.state.Phase == phaseReady && s.state.Group != nil && s.secret.Metadata.DeletionTimestamp.IsZero() {
			each(s)
		}
	}
	for _, id := range ids {
		s, err := l.find(ctx, id)
		if err == nil {
			ifRuns(s)
		} else if !errors.Is(err, launcher.ErrNotFound) {
			return err
		}
	}
	if len(ids) > 0 {
		return nil
	}
	_, err := api.List(ctx, l.api, api.Secrets, groupsSelector, api.FullPage, func(found api.Secret) error {
		s := &server{id: found.Metadata.Labels[serverLabel], name: found.Metadata.Name, secret: found}
		err := s.readState()
		if err == nil {
			ifRuns(s)
		}
		return err
	})
	return err
}

// looksAtOnce is how many groups Members looks at at the same time.
const looksAtOnce = 8

// shownMembers is what operators see of the members of a group.
func (l *Launcher) shownMembers(s *server, all []mysqlgroup.Look) []launcher.Member {
	shown := make([]launcher.Member, len(all))
	for n, m := range all {
		shown[n] = launcher.Member{State: launcher.MemberMissing, Address: s.of(n + 1).at()}
		switch {
		case m.Online():
			shown[n].State, shown[n].Primary, shown[n].Queue = launcher.MemberOnline, m.Primary, m.Queue
		case m.State == "RECOVERING":
			shown[n].State, shown[n].Queue = launcher.MemberRecovering, m.Queue
		}
	}
	return shown
}

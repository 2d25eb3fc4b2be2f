package process

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"mysql-broker/provisioner/launcher"
)

// lookAge is for how long what was seen of a group says what it is like now.
const lookAge = 10 * time.Second

// seenGroup is what keepGroups saw of a group last.
type seenGroup struct {
	at      time.Time
	members []launcher.Member
}

// Members implements launcher.Grouper.
func (l *Launcher) Members(ctx context.Context, ids ...string) (map[string][]launcher.Member, error) {
	launched, err := l.launchedDirs()
	if err != nil {
		return nil, err
	}
	found := map[string][]launcher.Member{}
	var mu sync.Mutex
	var looking sync.WaitGroup
	atOnce := make(chan struct{}, looksAtOnce)
	for _, sd := range launched {
		if len(ids) > 0 && !slices.Contains(ids, sd.id) {
			continue
		}
		st, err := sd.loadState()
		if err != nil || st.Group == nil || st.Phase != phaseReady {
			continue
		}
		looking.Go(func() {
			atOnce <- struct{}{}
			defer func() { <-atOnce }()
			members := l.membersOf(ctx, sd, st)
			mu.Lock()
			defer mu.Unlock()
			found[sd.id] = members
		})
	}
	looking.Wait()
	return found, ctx.Err()
}

func (l *Launcher) membersOf(ctx context.Context, sd serverDir, st state) []launcher.Member {
	if seen, ok := l.seen.Load(sd.id); ok && time.Since(seen.(seenGroup).at) < lookAge {
		return seen.(seenGroup).members
	}
	return l.shown(st, l.lookAtMembers(ctx, sd, st))
}

// shown is what operators see of the members of a group.
func (l *Launcher) shown(st state, all []memberLook) []launcher.Member {
	shown := make([]launcher.Member, len(all))
	for n, m := range all {
		shown[n] = launcher.Member{State: launcher.MemberMissing,
			Address: net.JoinHostPort(cmp.Or(st.Host, l.cfg.Host), strconv.Itoa(st.Group.Ports[n]))}
		switch {
		case m.Online():
			shown[n].State, shown[n].Primary, shown[n].Queue = launcher.MemberOnline, m.Primary, m.Queue
		case m.State == "RECOVERING":
			shown[n].State, shown[n].Queue = launcher.MemberRecovering, m.Queue
		}
	}
	return shown
}

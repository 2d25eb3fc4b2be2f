// Package recovery makes a PostgreSQL that was restored from a backup agree with the servers again. The servers are
// right about what is there, and nobody whose access was ended gets it back: what was removed since the backup is
// forgotten, instances made since are taken over from what the servers were told of them (package mark), and accounts
// made since, of which nothing is known but their names, are shut. No database, table or server is removed.
package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mark"
	"mysql-broker/store"
)

// Config is what a recovery works with.
type Config struct {
	Store   *store.Store
	Fleet   *fleet.Fleet
	Without []string // names of servers that are lost: nothing is done about what they hold
}

// Action is what is done about a difference.
type Action string

// In this order they are carried out, so that an instance is there before its accounts are.
const (
	End    Action = "end"    // a task in progress of the past is recorded as ended
	Forget Action = "forget" // what is gone is forgotten
	Adopt  Action = "adopt"  // what is there is recorded
	Shut   Action = "shut"   // an account is locked and its sessions are ended
	Settle Action = "settle" // privileges are set to those that the account should have, by a broker's next round
	Look   Action = "look"   // an operator has to see to it
)

var actions = []Action{End, Forget, Adopt, Shut, Settle, Look}

// Item is something that a recovery does, or leaves to operators. It holds no secret.
type Item struct {
	Action     Action
	Kind       string // of the thing: task, instance, binding, or a kind of store.Resource
	Server     string // the shared server's name or the dedicated server's id
	Name       string
	InstanceID string
	BindingID  string
	Why        string

	blocks bool // PostgreSQL stays held while it is so
	do     func(context.Context) error
}

// Plan is all that a recovery does.
type Plan struct {
	Hold  *store.Hold // nil unless PostgreSQL is held
	Items []Item

	cfg      Config
	known    int64    // the highest task that anybody was told of
	compared []string // servers, "" for the dedicated ones
}

// Blocked tells whether the hold cannot end because of something that an operator has to see to first.
func (p Plan) Blocked() bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return i.blocks })
}

// Do carries an item out. One that is left to operators has nothing to be done.
func (i Item) Do(ctx context.Context) error {
	if i.do == nil {
		return nil
	}
	return i.do(ctx)
}

// End ends the hold, once all items are carried out. The servers are told what PostgreSQL knows: a server that was left
// out, and comes back, still knows better, and holds it anew. Tasks to come follow after all that anybody was told of.
func (p Plan) End(ctx context.Context) error {
	m, err := p.cfg.Store.Mark(ctx)
	if err != nil {
		return fmt.Errorf("read the high-water mark: %w", err)
	}
	for _, name := range p.compared {
		if err := p.restart(ctx, name, m); err != nil {
			return fmt.Errorf("tell the server %q what PostgreSQL knows: %w", name, err)
		}
	}
	return p.cfg.Store.Resume(ctx, p.known)
}

func (p Plan) restart(ctx context.Context, name string, m store.Mark) error {
	if name == store.DedicatedServers {
		for _, l := range p.cfg.Fleet.Launchers() {
			if err := mark.RestartDedicated(ctx, l, m); err != nil {
				return err
			}
		}
		return nil
	}
	server, err := p.cfg.Fleet.Shared.Server(name)
	if err != nil {
		return err
	}
	return mark.RestartShared(ctx, server, m)
}

const (
	// quietTime bounds the wait for workers that began something before PostgreSQL was held; they give up within a part
	// of their lease.
	quietTime = time.Minute
	quietPoll = 200 * time.Millisecond
	// siteTime bounds what one server is asked.
	siteTime = time.Minute
	// doTime bounds an item.
	doTime = 40 * time.Second
)

// Begin holds PostgreSQL, if it is not, and waits until no worker is at a task. Only binds are carried out then, and
// what a plan finds stays so.
func Begin(ctx context.Context, s *store.Store) error {
	held, err := s.HoldRestored(ctx)
	if err == nil && held == nil {
		err = s.SetHold(ctx, "An operator runs mysql-broker recover.", 0)
	}
	if err != nil {
		return fmt.Errorf("hold PostgreSQL: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, quietTime, errors.New("workers did not let go of their tasks"))
	defer cancel()
	for {
		busy, err := s.Busy(ctx, store.Bind)
		if err != nil {
			return fmt.Errorf("wait for workers: %w", errors.Join(err, context.Cause(ctx)))
		}
		if !busy {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(quietPoll):
		}
	}
}

// New compares everything and changes nothing.
func New(ctx context.Context, cfg Config) (Plan, error) {
	m, err := cfg.Store.Mark(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	r := &recovery{Config: cfg, identity: m.Identity, gone: map[string]bool{}, whole: map[string]bool{}}
	r.plan = Plan{Hold: m.Hold, cfg: cfg, known: m.TaskID}
	if r.before, err = cfg.Store.Clock(ctx); err != nil {
		return Plan{}, err
	}
	if m.Hold != nil {
		r.before = m.Hold.Since
	}
	tasks, err := cfg.Store.TasksInProgress(ctx, r.before)
	if err != nil {
		return Plan{}, fmt.Errorf("read the tasks in progress: %w", err)
	}
	r.tasks = tasks
	servers, err := r.servers(ctx)
	if err != nil {
		return Plan{}, err
	}
	for _, name := range servers {
		err := r.compare(ctx, name)
		if ctx.Err() != nil {
			return Plan{}, context.Cause(ctx)
		}
		if errors.Is(err, store.ErrUnavailable) {
			return Plan{}, err
		}
		if err != nil {
			r.unreachable(name, err)
			continue
		}
		r.plan.compared = append(r.plan.compared, name)
	}
	r.endTasks()
	slices.SortStableFunc(r.plan.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(slices.Index(actions, a.Action), slices.Index(actions, b.Action)),
			cmp.Compare(a.Server, b.Server), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return r.plan, nil
}

// recovery is a comparison under way.
type recovery struct {
	Config
	identity string
	before   time.Time // what was recorded then or later is not of the past
	plan     Plan
	tasks    []store.Task
	gone     map[string]bool // instances that are forgotten, with their tasks
	whole    map[string]bool // instances whose databases are there
}

func (r *recovery) add(i Item) { r.plan.Items = append(r.plan.Items, i) }

// servers lists the shared servers that are configured or recorded, and "" for the dedicated ones.
func (r *recovery) servers(ctx context.Context) ([]string, error) {
	all, err := r.Store.ResourceServers(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which servers there are records of: %w", err)
	}
	all = append(all, r.Fleet.Shared.Names()...)
	if len(r.Fleet.Launchers()) > 0 {
		all = append(all, store.DedicatedServers)
	}
	slices.Sort(all)
	return slices.DeleteFunc(slices.Compact(all), func(name string) bool {
		return name != store.DedicatedServers && slices.Contains(r.Without, name)
	}), nil
}

func (r *recovery) unreachable(server string, err error) {
	kind, name := "shared server", server
	if server == store.DedicatedServers {
		kind, name = "launcher", ""
	}
	r.add(Item{Action: Look, Kind: kind, Server: name, Name: name, blocks: true,
		Why: fmt.Sprintf("it cannot be asked what it holds; see to it, or leave it out with --without if lost: %v", err)})
}

// compare compares a server with what is recorded. The server is asked first, so that what is recorded before it is
// made, by a bind of now, is not taken for unrecorded.
func (r *recovery) compare(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	if name == store.DedicatedServers {
		return r.compareDedicated(ctx)
	}
	return r.compareShared(ctx, name)
}

// endTasks ends what was in progress and nothing else has an end for.
func (r *recovery) endTasks() {
	for _, t := range r.tasks {
		if r.gone[t.InstanceID] || t.BindingID != "" && slices.ContainsFunc(r.plan.Items, func(i Item) bool {
			return i.InstanceID == t.InstanceID && i.BindingID == t.BindingID && i.Action != Settle
		}) { // it ends with its instance or binding
			continue
		}
		r.add(Item{Action: End, Kind: "task", Name: taskName(t.ID), InstanceID: t.InstanceID, BindingID: t.BindingID,
			Why: t.Kind + " of the past", do: func(ctx context.Context) error { return r.endTask(ctx, t) }})
	}
}

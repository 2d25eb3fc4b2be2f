// Package recovery makes the records in a PostgreSQL that was restored from a backup match the servers again. What
// exists on the servers counts, and access that was ended is not given back. The records of what was deleted since the
// backup are deleted. Instances that were created since the backup are recorded from the servers' lists (package mark).
// Accounts that were created since the backup are locked, because only their names are known. No database, table or
// server is deleted.
package recovery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// Config has the dependencies and options of a recovery.
type Config struct {
	Store   *store.Store
	Fleet   *fleet.Fleet
	Without []string // names of lost servers: the records of what they held stay as they are
}

// unrecorded says of a database or server that neither PostgreSQL nor a record beside it knows.
const unrecorded = "it belongs to another broker, or was created in the last minute before the loss; in that case " +
	"the platform has its instance: copy the data into a new one"

// Action is how a difference is resolved.
type Action string

// Actions run in this order, so that an instance is recorded before its accounts.
const (
	End    Action = "end"    // a task that was in progress when the backup was made is recorded as ended
	Forget Action = "forget" // the record of something that does not exist is deleted
	Adopt  Action = "adopt"  // something that exists is recorded
	Shut   Action = "shut"   // an account is locked and its sessions are killed
	Settle Action = "settle" // a broker reconciles the privileges of an account in its next round
	Look   Action = "look"   // an operator has to look at it
)

var actions = []Action{End, Forget, Adopt, Shut, Settle, Look}

// Item is one action of a recovery. It holds no secret.
type Item struct {
	Action     Action `json:"action"`
	Kind       string `json:"kind"`             // of the thing: task, instance, binding, or a kind of store.Resource
	Server     string `json:"server,omitempty"` // the shared server's name or the dedicated server's id
	Name       string `json:"name,omitempty"`
	InstanceID string `json:"instance_id,omitempty"`
	BindingID  string `json:"binding_id,omitempty"`
	Why        string `json:"why"`

	blocks bool // PostgreSQL stays held until an operator has resolved it
	do     func(context.Context) error
}

// Plan is all actions of a recovery.
type Plan struct {
	Hold  *store.Hold // nil unless PostgreSQL is held
	Items []Item

	cfg      Config
	known    int64    // the highest task of any mark
	compared []string // servers, "" for the dedicated ones
}

// Blocked reports whether an operator must resolve something before the hold can end.
func (p Plan) Blocked() bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return i.blocks })
}

// Do runs the action of an item. It does nothing if the item is left to an operator.
func (i Item) Do(ctx context.Context) error {
	if i.do == nil {
		return nil
	}
	return i.do(ctx)
}

// End ends the hold after all items are done. It writes new marks to the servers that were compared. A server that was
// left out keeps its newer mark, and holds PostgreSQL again if it comes back. New tasks get ids above those of all
// marks.
func (p Plan) End(ctx context.Context) error {
	m, err := p.cfg.Store.Recovery.Mark(ctx)
	if err != nil {
		return fmt.Errorf("read the high-water mark: %w", err)
	}
	for _, name := range p.compared {
		if err := p.restart(ctx, name, m); err != nil {
			return fmt.Errorf("write the high-water mark to the server %q: %w", name, err)
		}
	}
	return p.cfg.Store.Recovery.Resume(ctx, p.known)
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
	// quietTime bounds the wait for workers whose tasks began before the hold. They stop within a fraction of their lease.
	quietTime = time.Minute
	quietPoll = 200 * time.Millisecond
	// siteTime bounds the reads of one server.
	siteTime = time.Minute
	// doTime bounds an item.
	doTime = 40 * time.Second
)

// Begin holds PostgreSQL, if it is not held, and waits until no worker runs a task other than a bind, so that the
// findings of a plan do not change.
func Begin(ctx context.Context, s *store.Store) error {
	held, err := s.Recovery.HoldRestored(ctx)
	if err == nil && held == nil {
		err = s.Recovery.SetHold(ctx, "An operator runs mysql-broker recover.", 0)
	}
	if err != nil {
		return fmt.Errorf("hold PostgreSQL: %w", err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, quietTime, errors.New("workers did not release their tasks"))
	defer cancel()
	for {
		busy, err := s.Recovery.Busy(ctx, store.Bind)
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

// New compares all servers with the records and returns the plan. It changes nothing.
func New(ctx context.Context, cfg Config) (Plan, error) {
	m, err := cfg.Store.Recovery.Mark(ctx)
	if err != nil {
		return Plan{}, fmt.Errorf("read whether PostgreSQL is held: %w", err)
	}
	r := &recovery{Config: cfg, identity: m.Identity, gone: map[string]bool{}, whole: map[string]bool{},
		undeleting: map[string]string{}}
	r.plan = Plan{Hold: m.Hold, cfg: cfg, known: m.TaskID}
	if r.before, err = cfg.Store.Clock(ctx); err != nil {
		return Plan{}, err
	}
	if m.Hold != nil {
		r.before = m.Hold.Since
	}
	tasks, err := cfg.Store.Tasks.InProgress(ctx, r.before)
	if err != nil {
		return Plan{}, fmt.Errorf("read the tasks in progress: %w", err)
	}
	r.tasks = tasks
	all, err := inventory.Servers(ctx, cfg.Store, cfg.Fleet)
	if err != nil {
		return Plan{}, err
	}
	servers := slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return name != store.DedicatedServers && slices.Contains(cfg.Without, name)
	})
	if err := r.locate(ctx, all, servers); err != nil {
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
	r.comparePasswords(ctx)
	slices.SortStableFunc(r.plan.Items, func(a, b Item) int {
		return cmp.Or(cmp.Compare(order(a), order(b)),
			cmp.Compare(a.Server, b.Server), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
	})
	return r.plan, nil
}

// recovery is the state of a comparison.
type recovery struct {
	Config
	identity string
	before   time.Time // records of that time or later are not from the backup
	plan     Plan
	tasks    []store.Task
	places   places
	records  map[string]readRecord // of shared servers
	launched launched
	gone     map[string]bool     // instances whose records will be deleted, with their tasks
	whole    map[string]bool     // instances whose databases exist
	usable   []inventory.Account // of bindings that stay
	// undeleting are the instances that were getting what a deleted one has left when the backup was made, and the ids of
	// the deleted ones.
	undeleting map[string]string
}

// order is when an item runs. An instance is frozen once it is recorded where it is.
func order(i Item) int {
	at := 2 * slices.Index(actions, i.Action)
	if i.Kind == freezeKind {
		at++
	}
	return at
}

func (r *recovery) add(i Item) { r.plan.Items = append(r.plan.Items, i) }

func (r *recovery) unreachable(server string, err error) {
	kind, name := "shared server", server
	if server == store.DedicatedServers {
		kind, name = "launcher", ""
	}
	r.add(Item{Action: Look, Kind: kind, Server: name, Name: name, blocks: true,
		Why: fmt.Sprintf("the broker cannot list what it holds; make it reachable, or leave it out with --without "+
			"if it is lost: %v", err)})
}

// compare compares a server with the records. It reads the server first, so that the account of a running bind, which
// is recorded before it is created, does not seem to have no record.
func (r *recovery) compare(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	if name == store.DedicatedServers {
		return r.compareDedicated(ctx)
	}
	return r.compareShared(ctx, name)
}

// endTasks ends the tasks in progress that no other item ends.
func (r *recovery) endTasks() {
	for _, t := range r.tasks {
		if r.gone[t.InstanceID] || t.BindingID != "" && slices.ContainsFunc(r.plan.Items, func(i Item) bool {
			return i.InstanceID == t.InstanceID && i.BindingID == t.BindingID && i.Action != Settle
		}) { // the item of its instance or binding ends it
			continue
		}
		r.add(Item{Action: End, Kind: "task", Name: task.Token(t.ID), InstanceID: t.InstanceID, BindingID: t.BindingID,
			Why: t.Kind + " of the past" + r.undeleteOf(t), do: func(ctx context.Context) error { return r.endTask(ctx, t) }})
	}
}

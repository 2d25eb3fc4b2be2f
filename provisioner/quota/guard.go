// Package quota holds instances to the storage that their plans allow. It measures their databases now and then, and
// takes from the accounts of those that hold too much what data grow by, until they hold less. One broker at a time
// does it for all on shared servers, and one, which may be another, for all on dedicated ones: many of those may not
// answer.
//
// What is to be is recorded first, and done on the servers afterwards, account by account; what was not done yet,
// because a broker died, a server was down or an operation was in progress, is done by the next round. A bind reads
// what is to be under the lock of the instance, and makes its account accordingly.
package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/leader"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// Config is what a guard works with.
type Config struct {
	Store  *store.Store
	Plans  plan.Set
	Fleet  *fleet.Fleet
	Logger *slog.Logger
	// Interval is from the beginning of one round to that of the next, or longer: a round is followed by a rest as long
	// as it took. With 0 nothing is measured, and all accounts may add data.
	Interval time.Duration
}

// Guard watches over quotas from Start to Close.
type Guard struct {
	Config
	cancel context.CancelFunc
	done   sync.WaitGroup

	measuring periodic.Servers // whether each can be measured, with all its instances

	mu     sync.Mutex
	others map[string]map[string]int64 // by shared server, what otherTables last told
	stored map[string]programs         // by shared server
	marked map[string]time.Time        // when markEvents last looked, by lease
	swept  time.Time                   // when ForgetUsage last ran, after the shared servers
}

// side is either kind of servers. Each has its own leader and rounds.
type side struct {
	lease     string // of the leader, as it is named in the store
	dedicated bool
	what      string // for the log
}

var sides = []side{{"quota", false, "measuring storage"},
	{"quota of dedicated servers", true, "measuring storage of dedicated servers"}}

const (
	// offEach is the interval of rounds that only look for accounts to be released.
	offEach = time.Minute
	// How many servers are measured at the same time: more than one, as one may take long to answer.
	sharedAtOnce    = 2
	dedicatedAtOnce = 8
	// Samples are kept for a month, and what deleted instances have left for an hour or two.
	keepSamples = 30 * 24 * time.Hour
	sweepEach   = time.Hour
)

// Start begins with a round as soon as this broker leads.
func Start(cfg Config) *Guard {
	g := &Guard{Config: cfg,
		others: map[string]map[string]int64{}, marked: map[string]time.Time{},
		stored: map[string]programs{}, swept: time.Now(), measuring: periodic.Servers{Status: periodic.Status{
			What: "measuring all databases of a server", Log: cfg.Logger, EachError: true}}}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	every := cfg.Interval
	if every == 0 {
		every = offEach
	}
	for _, of := range sides {
		work := leader.Work{Store: cfg.Store, Log: cfg.Logger, Lease: of.lease, What: of.what, Every: every,
			Do: func(ctx context.Context) error { return g.round(ctx, of) }}
		g.done.Go(func() { work.Run(ctx) })
	}
	return g
}

// Close returns once nothing is under way. What was begun, the next broker's round completes.
func (g *Guard) Close() {
	g.cancel()
	g.done.Wait()
}

// markEvents has the accounts reconciled that may make events although their plan does not say so, or the other way
// round: those of a release before the plans said anything, or of a catalog that said something else.
func (g *Guard) markEvents(ctx context.Context, of side) error {
	g.mu.Lock()
	since := g.marked[of.lease]
	g.mu.Unlock()
	if time.Since(since) < sweepEach {
		return nil
	}
	var with, without []string
	for _, p := range g.Plans {
		if p.Events {
			with = append(with, p.ID)
		} else {
			without = append(without, p.ID)
		}
	}
	if err := g.Store.MarkEvents(ctx, with, without); err != nil {
		return fmt.Errorf("look for accounts whose plan says something else of events: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marked[of.lease] = time.Now()
	return nil
}

// round measures everything on a kind of servers, and reconciles every account there that is due.
// While PostgreSQL is held, what it says of instances may be long past, and nothing is done.
func (g *Guard) round(ctx context.Context, of side) (err error) {
	held, err := g.Store.Hold(ctx)
	if err != nil || held != nil {
		return err
	}
	switch {
	case g.Interval == 0:
		err = g.releaseAll(ctx, of)
	case of.dedicated:
		err = g.eachDedicated(ctx)
	default:
		err = g.eachShared(ctx)
	}
	if ctx.Err() == nil {
		err = errors.Join(err, g.markEvents(ctx, of), g.Store.ReconcileUnrestricted(ctx),
			g.reconcileAll(ctx, of.dedicated, ""))
	}
	if !of.dedicated && time.Since(g.swept) >= sweepEach && ctx.Err() == nil {
		g.swept = time.Now()
		err = errors.Join(err, g.Store.ForgetUsage(ctx, keepSamples))
	}
	return err
}

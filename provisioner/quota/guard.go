// Package quota holds instances to the storage that their plans allow. It measures their databases at intervals. If an
// instance holds too much, its accounts lose the write privileges until it holds less. One broker at a time does this
// for all shared servers, and one, maybe another, for all dedicated servers, many of which may not answer.
//
// PostgreSQL records first whether an instance is over its quota. Then the privileges of its accounts are changed on
// the server, one account after the other. If a broker dies, a server is down or an operation is in progress, the next
// round does the rest. A bind reads the record under the lock of the instance, and creates its account accordingly.
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
	// Interval is the time from the start of one round to the start of the next. A round that takes longer than half of it
	// is followed by a pause as long as itself. If it is 0, nothing is measured, and all accounts may write.
	Interval time.Duration
}

// Guard enforces quotas from Start to Close.
type Guard struct {
	Config
	cancel context.CancelFunc
	done   sync.WaitGroup

	measuring periodic.Servers // logs whether each server, with all its databases, can be measured

	mu     sync.Mutex
	others map[string]map[string]int64 // the latest result of otherTables, by shared server
	stored map[string]programs         // by shared server
	marked map[string]time.Time        // when markEvents last ran, by lease
	swept  time.Time                   // when ForgetUsage last ran; used by the round of the shared servers
}

// side is the shared or the dedicated servers. Each side has its own leader and rounds.
type side struct {
	lease     string // the name of the leader's lease in the store
	dedicated bool
	what      string // for the log
}

var sides = []side{{"quota", false, "measuring storage"},
	{"quota of dedicated servers", true, "measuring storage of dedicated servers"}}

const (
	// offEach is the interval of rounds while quotas are off. They only restore write privileges.
	offEach = time.Minute
	// How many servers are measured at the same time: more than one, as a server may take long to answer.
	sharedAtOnce    = 2
	dedicatedAtOnce = 8
	// Samples are kept for a month, and the usage of deleted instances for an hour or two.
	keepSamples = 30 * 24 * time.Hour
	sweepEach   = time.Hour
)

// Start starts a guard, whose first round begins as soon as this broker gets the leader lease.
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

// Close stops the rounds and waits until they have ended. The next broker's round completes what they leave undone.
func (g *Guard) Close() {
	g.cancel()
	g.done.Wait()
}

// markEvents marks accounts for reconcileAll whose privilege to make events is not what their plan says, because the
// plan in the catalog has changed.
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
		return fmt.Errorf("look for accounts that gain or lose the privilege to make events: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.marked[of.lease] = time.Now()
	return nil
}

// round measures all databases on one side, and reconciles the accounts that are due there. During a store.Hold it does
// nothing, as the records of the instances may be out of date.
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
		err = errors.Join(err, g.markEvents(ctx, of), g.reconcileAll(ctx, of.dedicated, ""))
	}
	if !of.dedicated && time.Since(g.swept) >= sweepEach && ctx.Err() == nil {
		g.swept = time.Now()
		err = errors.Join(err, g.Store.ForgetUsage(ctx, keepSamples))
	}
	return err
}

// Package quota limits instances to the storage that their plans allow. It measures their databases at intervals. If an
// instance holds more, its accounts lose the write privileges until it holds less. One broker at a time does this for
// all shared servers, and one, maybe another, for all dedicated servers, many of which may not answer.
//
// The guard first records in PostgreSQL whether an instance is over its quota. Then it changes the privileges of the
// accounts on the server, one account after the other. If a broker dies, a server is down or an operation is in
// progress, the next round does the rest. A bind reads the record under the lock of the instance, and creates its
// account with or without the write privileges.
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

// Config has the dependencies and options of a guard.
type Config struct {
	Store  *store.Store
	Plans  plan.Set
	Fleet  *fleet.Fleet
	Logger *slog.Logger
	// Interval is the time from the start of one round to the start of the next. After a round that takes longer than half
	// of it, the guard pauses for as long as the round took. If it is 0, nothing is measured, and all accounts may write.
	Interval time.Duration
}

// Guard enforces quotas from Start to Close.
type Guard struct {
	Config
	cancel context.CancelFunc
	done   sync.WaitGroup

	measuring periodic.Servers    // logs whether each server, with all its databases, can be measured
	readings  map[string]*reading // by shared server
}

// reading is the last result of those reads of a shared server that take long. One goroutine at a time reads a server.
type reading struct {
	otherTables map[string]int64 // bytes by database
	programs    programs
}

// side is the shared or the dedicated servers. Each side has its own leader, and one round at a time.
type side struct {
	lease     string // the name of the leader's lease in the store
	dedicated bool
	what      string    // for the log
	marked    time.Time // when markEvents last ran
	swept     time.Time // when Usage.Forget last ran, for both sides after a round of the shared servers
}

const (
	// offInterval is the interval of rounds while quotas are off. They only restore write privileges.
	offInterval = time.Minute
	// How many servers are measured at the same time: more than one, because a server may take long to answer.
	sharedAtOnce    = 2
	dedicatedAtOnce = 8
	// Samples are kept for a month, and the usage of deleted instances for an hour or two.
	keepSamples   = 30 * 24 * time.Hour
	sweepInterval = time.Hour
)

// Start starts a guard. Its first round begins as soon as this broker gets the leader lease.
func Start(cfg Config) *Guard {
	g := &Guard{Config: cfg, readings: map[string]*reading{}, measuring: periodic.Servers{Status: periodic.Status{
		What: "measuring all databases of a server", Log: cfg.Logger, EachError: true}}}
	for _, name := range cfg.Fleet.Shared.Names() {
		g.readings[name] = &reading{otherTables: map[string]int64{}}
	}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	every := cfg.Interval
	if every == 0 {
		every = offInterval
	}
	for _, of := range []*side{{lease: "quota", what: "measuring storage", swept: time.Now()},
		{lease: "quota of dedicated servers", what: "measuring storage of dedicated servers", dedicated: true}} {
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

// markEvents marks accounts for reconcileAll whose EVENT privilege differs from their plan, because the plan has
// changed in the catalog.
func (g *Guard) markEvents(ctx context.Context, of *side) error {
	if time.Since(of.marked) < sweepInterval {
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
	if err := g.Store.Bindings.MarkEvents(ctx, with, without); err != nil {
		return fmt.Errorf("list the accounts that gain or lose the privilege to make events: %w", err)
	}
	of.marked = time.Now()
	return nil
}

// round measures all databases on one side, and reconciles the accounts that are due there. During a store.Hold it does
// nothing, as the records of the instances may be out of date.
func (g *Guard) round(ctx context.Context, of *side) (err error) {
	held, err := g.Store.Recovery.Hold(ctx)
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
	if !of.dedicated && time.Since(of.swept) >= sweepInterval && ctx.Err() == nil {
		of.swept = time.Now()
		err = errors.Join(err, g.Store.Usage.Forget(ctx, keepSamples))
	}
	return err
}

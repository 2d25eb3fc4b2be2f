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

	"github.com/google/uuid"

	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Config is what a guard works with.
type Config struct {
	Store     *store.Store
	Plans     plan.Set
	Shared    *shared.Servers
	Dedicated *dedicated.Servers // nil where no launcher is configured
	Logger    *slog.Logger
	// Interval is from the beginning of one round to that of the next, or longer: a round is followed by a rest as long
	// as it took. With 0 nothing is measured, and all accounts may add data.
	Interval time.Duration
}

// Guard watches over quotas from Start to Close.
type Guard struct {
	Config
	me     string // to the other brokers
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	others map[string]map[string]int64 // by shared server, what otherTables last told
	stored map[string]programs         // by shared server
	marked map[string]time.Time        // when markEvents last looked, by turn
	told   map[string]string           // the problem that was last logged of each server
	swept  time.Time                   // when ForgetUsage last ran, after the shared servers
}

// side is either kind of servers. Each has its own turns and rounds.
type side struct {
	turn      string // as it is named in the store
	dedicated bool
}

var sides = []side{{"quota", false}, {"quota of dedicated servers", true}}

const (
	// hold is how long the other brokers wait for one that died in a round, and keepEach how often one that lives says so.
	hold     = 15 * time.Second
	keepEach = hold / 3
	// offEach is the interval of rounds that only look for accounts to be released.
	offEach = time.Minute
	// retryEach is how soon a broker asks for its turn again when PostgreSQL did not answer, and makes a round anew.
	retryEach = 5 * time.Second
	// How many servers are measured at the same time: more than one, as one may take long to answer.
	sharedAtOnce    = 2
	dedicatedAtOnce = 8
	// Samples are kept for a month, and what deleted instances have left for an hour or two.
	keepSamples = 30 * 24 * time.Hour
	sweepEach   = time.Hour
)

// Start begins with a round as soon as it is this broker's turn.
func Start(cfg Config) *Guard {
	g := &Guard{Config: cfg, me: uuid.NewString(),
		others: map[string]map[string]int64{}, marked: map[string]time.Time{},
		stored: map[string]programs{}, told: map[string]string{}, swept: time.Now()}
	ctx, cancel := context.WithCancel(context.Background())
	g.cancel = cancel
	for _, of := range sides {
		g.done.Go(func() { g.run(ctx, of) })
	}
	return g
}

// Close returns once nothing is under way. What was begun, the next broker's round completes.
func (g *Guard) Close() {
	g.cancel()
	g.done.Wait()
}

func (g *Guard) run(ctx context.Context, of side) {
	for {
		mine, wait, err := g.Store.TakeTurn(ctx, of.turn, g.me, hold)
		switch {
		case err != nil:
			wait = retryEach // the rest of the broker tells of the outage
		case mine:
			wait = g.takeTurn(ctx, of)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, time.Millisecond)):
		}
	}
}

// takeTurn makes a round, and returns when to ask for the next turn. A round that was not completed is made anew soon,
// and at once by another broker if this one ends.
func (g *Guard) takeTurn(ctx context.Context, of side) (wait time.Duration) {
	since := time.Now()
	err := g.heldRound(ctx, of)
	took := time.Since(since)
	each, rest := g.Interval, took
	switch {
	case ctx.Err() != nil:
		each, rest = 0, 0
	case g.Interval == 0:
		each = offEach
	}
	if err != nil {
		each = min(each, retryEach)
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), retryEach)
	defer cancel()
	if err := errors.Join(err, g.Store.EndTurn(ending, of.turn, g.me, each, rest)); err != nil && ctx.Err() == nil {
		g.Logger.Warn("a round of measuring storage was not completed", "error", err)
	}
	return max(each-took, rest)
}

// heldRound makes a round while the turn is this broker's.
func (g *Guard) heldRound(ctx context.Context, of side) error {
	ctx, lose := context.WithCancelCause(ctx)
	var keeping sync.WaitGroup
	keeping.Go(func() {
		tick := time.NewTicker(keepEach)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if err := g.Store.KeepTurn(ctx, of.turn, g.me, hold); err != nil {
					lose(fmt.Errorf("keep the turn: %w", err))
				}
			}
		}
	})
	defer keeping.Wait()
	defer lose(nil)
	if err := g.round(ctx, of); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// markEvents has the accounts settled that may make events although their plan does not say so, or the other way round:
// those of a release before the plans said anything, or of a catalog that said something else.
func (g *Guard) markEvents(ctx context.Context, of side) error {
	g.mu.Lock()
	since := g.marked[of.turn]
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
	g.marked[of.turn] = time.Now()
	return nil
}

// round measures everything on a kind of servers, and settles every account there that is due.
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
		err = errors.Join(err, g.markEvents(ctx, of), g.Store.SettleUnrestricted(ctx), g.settleAll(ctx, of.dedicated, ""))
	}
	if !of.dedicated && time.Since(g.swept) >= sweepEach && ctx.Err() == nil {
		g.swept = time.Now()
		err = errors.Join(err, g.Store.ForgetUsage(ctx, keepSamples))
	}
	return err
}

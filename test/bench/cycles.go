package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	cycleRounds = 8
	cycleTime   = 4 * time.Second // of one side's turn
)

// measureCycles compares how many instances many concurrent clients create, bind, unbind and delete.
func measureCycles(ctx context.Context, b *bench) error {
	for _, s := range b.servers {
		for _, clients := range []int{8, 32} {
			if err := b.measureCyclesOn(ctx, s, clients); err != nil {
				return fmt.Errorf("%s, %d clients: %w", s.Flavour, clients, err)
			}
		}
	}
	return nil
}

func (b *bench) measureCyclesOn(ctx context.Context, s server, clients int) (err error) {
	through, without, end, err := b.tenants(ctx, s, clients)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	side := func(tenants []tenant) func(context.Context) (figures, error) {
		return func(ctx context.Context) (figures, error) { return liveTogether(ctx, tenants) }
	}
	c, err := compare(ctx, b.rounds(cycleRounds), side(through), side(without))
	if err != nil {
		return err
	}
	b.reportCycles(c, s.Flavour, clients)
	return nil
}

const perSecond = "per second"

var percentiles = []int{50, 95, 99}

func (b *bench) reportCycles(c comparison, flavour string, clients int) {
	goal := atLeast(0.9)
	if clients > 8 {
		goal = atLeast(1)
	}
	of := func(what string) string { return fmt.Sprintf("%s, %d clients", what, clients) }
	b.report.add(c.row(perSecond, Row{What: of("cycles"), Flavour: flavour, Unit: "1/s", Goal: goal, Note: rawNote}))
	for _, name := range append([]string{cycle}, operationNames...) {
		for _, p := range percentiles {
			r := Row{What: fmt.Sprintf("%s, p%d", of(name), p), Flavour: flavour, Unit: "ms", Detail: true}
			if name == cycle && p == 99 {
				r.Goal, r.Detail = atMost(1), false
			}
			b.report.add(c.row(figureName(name, p), r))
		}
	}
}

func figureName(operation string, p int) string { return fmt.Sprintf("%s p%d", operation, p) }

// liveTogether runs all tenants concurrently, each life after life, until cycleTime is over.
func liveTogether(ctx context.Context, tenants []tenant) (figures, error) {
	begun := time.Now()
	each := make([]took, len(tenants))
	errs := make([]error, len(tenants))
	var all sync.WaitGroup
	for i, who := range tenants {
		all.Go(func() {
			each[i] = took{}
			for errs[i] == nil && ctx.Err() == nil && time.Since(begun) < cycleTime {
				errs[i] = each[i].live(who)
			}
		})
	}
	all.Wait()
	elapsed := time.Since(begun)
	if err := errors.Join(append(errs, ctx.Err())...); err != nil {
		return nil, err
	}
	together := took{}
	for _, t := range each {
		together.add(t)
	}
	f := figures{perSecond: float64(len(together[cycle])) / elapsed.Seconds()}
	for name, durations := range together {
		for _, p := range percentiles {
			f[figureName(name, p)] = percentile(durations, p)
		}
	}
	return f, nil
}

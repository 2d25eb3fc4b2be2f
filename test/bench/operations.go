package main

import (
	"context"
	"errors"
	"fmt"
)

const (
	operationRounds = 20
	livesInRound    = 20
)

// measureOperations compares how long one client waits for each operation.
func measureOperations(ctx context.Context, b *bench) error {
	for _, s := range b.servers {
		if err := b.measureOperationsOn(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", s.Flavour, err)
		}
	}
	return nil
}

func (b *bench) measureOperationsOn(ctx context.Context, s server) (err error) {
	through, without, end, err := b.tenants(ctx, s, 1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	c, err := compareMedians(ctx, b.rounds(operationRounds), through[0], without[0])
	if err != nil {
		return err
	}
	for _, name := range operationNames {
		b.report.add(c.row(name, operationRow(name, s.Flavour)))
	}
	c, err = compareMedians(ctx, b.rounds(operationRounds), &visited{tenant: through[0], ctx: ctx, server: s},
		&visited{tenant: without[0], ctx: ctx, server: s})
	if err != nil {
		return err
	}
	b.report.add(c.row("unbind", operationRow("unbind while a session is open", s.Flavour)))
	return nil
}

func operationRow(name, flavour string) Row {
	return Row{What: name + ", 1 client, p50", Flavour: flavour, Unit: "ms", Goal: atMost(1.3), Note: rawNote}
}

// compareMedians compares the medians of livesInRound operations each.
func compareMedians(ctx context.Context, rounds int, through, without tenant) (comparison, error) {
	side := func(who tenant) func(context.Context) (figures, error) {
		return func(context.Context) (figures, error) {
			t := took{}
			for range livesInRound {
				if err := t.live(who); err != nil {
					return nil, err
				}
			}
			f := figures{}
			for name, durations := range t {
				f[name] = percentile(durations, 50)
			}
			return f, nil
		}
	}
	return compare(ctx, rounds, side(through), side(without))
}

// tenants creates n tenants that use a new broker, and n that use none, on the same server.
func (b *bench) tenants(ctx context.Context, s server, n int) (through, without []tenant, end func() error, err error) {
	environment, err := b.environment(ctx, s)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := b.startBroker(ctx, environment)
	if err != nil {
		return nil, nil, nil, err
	}
	stop := func() error { return errors.Join(closeAll(through), r.stop(context.WithoutCancel(ctx))) }
	for range n {
		t, err := b.newBrokerTenant(ctx, r)
		if err != nil {
			return nil, nil, nil, errors.Join(err, stop())
		}
		through = append(through, t)
	}
	without, endRaw, err := b.rawTenants(ctx, s, n)
	if err != nil {
		return nil, nil, nil, errors.Join(err, stop())
	}
	return through, without, func() error { return errors.Join(stop(), endRaw()) }, nil
}

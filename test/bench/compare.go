package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// figures are what one side measured in one round, by name.
type figures map[string]float64

// comparison is what the broker and its raw reference measured in each round.
type comparison struct{ broker, raw []figures }

// compare measures both sides alternately, so that other load on the machine affects both. They take turns in being
// first. The first round only warms up.
func compare(ctx context.Context, rounds int, broker, raw func(context.Context) (figures, error)) (comparison, error) {
	var c comparison
	sides := []struct {
		name    string
		measure func(context.Context) (figures, error)
		results *[]figures
	}{{"the broker", broker, &c.broker}, {"the raw reference", raw, &c.raw}}
	for round := range rounds + 1 {
		for _, side := range sides {
			if err := ctx.Err(); err != nil {
				return c, err
			}
			result, err := side.measure(ctx)
			if err != nil {
				return c, fmt.Errorf("%s: %w", side.name, err)
			}
			if round > 0 {
				*side.results = append(*side.results, result)
			}
		}
		slices.Reverse(sides)
	}
	return c, nil
}

// row fills in a row with one of the figures.
func (c comparison) row(figure string, r Row) Row {
	var ratios []float64
	for i := range c.broker {
		ratios = append(ratios, c.broker[i][figure]/c.raw[i][figure])
	}
	r.Broker, r.Raw, r.Ratio = spreadOf(pick(c.broker, figure)), spreadOf(pick(c.raw, figure)), spreadOf(ratios)
	return r
}

func pick(all []figures, name string) (values []float64) {
	for _, f := range all {
		values = append(values, f[name])
	}
	return values
}

// percentile returns a percentile of durations, in milliseconds, by the nearest rank; p is from 0 to 100. It sorts the
// durations.
func percentile(durations []time.Duration, p int) float64 {
	slices.Sort(durations)
	rank := (len(durations)*p + 99) / 100
	return milliseconds(durations[max(rank, 1)-1])
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

package app

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/store"
)

func TestCostlyCountsAreToldAgainForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var bindings int64
		var takes time.Duration
		var fails error
		c := counter[store.Counts]{count: func(context.Context) (store.Counts, error) {
			time.Sleep(takes)
			return store.Counts{Bindings: bindings}, fails
		}}
		for i, step := range []struct {
			pause, takes time.Duration
			fails        error
			there, want  int64
		}{
			{0, time.Millisecond, nil, 1, 1},
			{0, time.Millisecond, nil, 2, 2},
			{0, time.Second, nil, 3, 3},
			{0, time.Second, nil, 4, 3},
			{50 * time.Second, time.Second, nil, 5, 3},
			{10 * time.Second, time.Second, errors.New("down"), 6, 6},
			{0, time.Second, nil, 7, 7},
			{time.Minute, time.Millisecond, nil, 8, 8},
			{0, time.Millisecond, nil, 9, 9},
		} {
			time.Sleep(step.pause)
			bindings, takes, fails = step.there, step.takes, step.fails
			counts, err := c.counts(t.Context())
			assert.True(t, counts.Bindings == step.want && errors.Is(err, step.fails),
				"step %d: %d bindings instead of %d, %v", i, counts.Bindings, step.want, err)
		}
	})
}

package dashboard

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// Viewers of the same page share a response until something changes. A missing response is not cached.
func TestInspectionsHoldUntilAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		away := false
		asked := 0
		n := newInspections(func(_ context.Context, _ store.Instance, accounts []string) (steps.Inspection, error) {
			asked++
			if away {
				return steps.Inspection{}, errors.New("away")
			}
			return steps.Inspection{Tables: len(accounts)}, nil
		}, DefaultAnswerTime)
		i := store.Instance{Location: store.SharedLocation("shared"), Database: "db_1"}
		for _, step := range []struct {
			what, structure string
			after           time.Duration
			away            bool
			accounts        int
			asked, tables   int
		}{
			{what: "first", structure: "a", asked: 1},
			{what: "again", structure: "a", after: inspectAgain - 1, asked: 1},
			{what: "bound", structure: "b", accounts: 1, asked: 2, tables: 1},
			{what: "bound again", structure: "c", accounts: 2, asked: 3, tables: 2},
			{what: "later", structure: "c", accounts: 2, after: inspectAgain, asked: 4, tables: 2},
			{what: "restarting", structure: "d", away: true, asked: 5},
			{what: "back", structure: "d", accounts: 2, asked: 6, tables: 2},
		} {
			time.Sleep(step.after)
			synctest.Wait()
			away = step.away
			got, err := n.of(t.Context(), i, step.structure, make([]string, step.accounts))
			assert.True(t, (err != nil) == step.away && got.Tables == step.tables && asked == step.asked,
				"%s: %d tables, %v, asked %d times", step.what, got.Tables, err, asked)
			synctest.Wait()
		}
		time.Sleep(inspectAgain)
		synctest.Wait()
		assert.Empty(t, n.latest, "%d are kept for ever", len(n.latest))
	})
}

// A server that does not answer does not hide the figures of others, and a shared one gets few queries at a time.
func TestSilentServersDelayNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		n := newInspections(func(ctx context.Context, i store.Instance, _ []string) (steps.Inspection, error) {
			switch i.Location.Server {
			case "slow":
				most.Store(max(most.Load(), now.Add(1)))
				defer now.Add(-1)
				time.Sleep(DefaultAnswerTime - time.Millisecond)
				return steps.Inspection{}, ctx.Err()
			case "silent":
				<-ctx.Done()
			}
			return steps.Inspection{}, ctx.Err()
		}, DefaultAnswerTime)
		of := func(i store.Instance) (time.Duration, error) {
			begun := time.Now()
			_, err := n.of(t.Context(), i, "a", nil)
			return time.Since(begun), err
		}
		for k := range 10 {
			go of(store.Instance{Location: store.DedicatedLocation("process", "silent"), Database: fmt.Sprint("silent_", k)})
		}
		synctest.Wait()
		took, err := of(store.Instance{Location: store.DedicatedLocation("process", "other"), Database: "db_1"})
		assert.True(t, took == 0 && err == nil, "a server that answers was waited for for %v: %v", took, err)
		took, err = of(store.Instance{Location: store.DedicatedLocation("process", "silent"), Database: "silent_0"})
		assert.True(t, took == DefaultAnswerTime && err != nil,
			"a server that does not answer was waited for for %v: %v", took, err)
		for k := range 2 {
			go of(store.Instance{Location: store.SharedLocation("slow"), Database: fmt.Sprint("slow_", k)})
		}
		synctest.Wait()
		// It has all its time once it is its turn.
		took, err = of(store.Instance{Location: store.SharedLocation("slow"), Database: "slow_2"})
		assert.True(t, took > DefaultAnswerTime && err == nil,
			"the third at a shared server was answered after %v: %v", took, err)
		assert.True(t, most.Load() == inspectAtOnce, "a shared server was asked about %d at a time", most.Load())
		time.Sleep(2 * DefaultAnswerTime) // until all have ended

		// One organization does not keep the page of another waiting.
		for k := range 5 {
			go of(store.Instance{Location: store.SharedLocation("slow"), Database: fmt.Sprint("greedy_", k),
				OrganizationGUID: "greedy"})
		}
		synctest.Wait()
		took, err = of(store.Instance{Location: store.SharedLocation("slow"), Database: "other", OrganizationGUID: "other"})
		assert.True(t, took < DefaultAnswerTime && err == nil, "another organization's was answered after %v: %v", took, err)
		time.Sleep(3 * DefaultAnswerTime)
	})
}

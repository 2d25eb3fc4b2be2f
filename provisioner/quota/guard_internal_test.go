package quota

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
	"mysql-broker/test/servers"
)

// A tenant who makes it impossible to measure the reusable space does not escape the quota.
func TestFilesOfTwiceTheQuotaNeedNoOtherFigure(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context) (mysqladmin.Size, error) {
		until, limited := ctx.Deadline()
		assert.True(t, limited && time.Until(until) < freshTime, "a measurement can take longer than it may be old")
		return mysqladmin.Size{}, context.DeadlineExceeded
	}
	got, err := used(t.Context(), 200, 100, silent)
	assert.True(t, err == nil && got == 100, "files of twice the quota: %d, %v", got, err)
	got, err = used(t.Context(), 199, 100, silent)
	assert.Error(t, err, "files of less: %d", got)
	told := func(context.Context) (mysqladmin.Size, error) { return mysqladmin.Size{Files: 200, Reusable: 120}, nil }
	got, err = used(t.Context(), 200, 90, told)
	assert.True(t, err == nil && got == 110, "with the figure: %d, %v", got, err)
}

// A tenant who makes files smaller between the two reads of OfFiles, as OPTIMIZE TABLE does, is not over the quota.
func TestOnlyTheLastMeasureDecides(t *testing.T) {
	t.Parallel()
	of := func(megabytes int64) measure {
		return func(context.Context) (mysqladmin.Size, error) { return mysqladmin.Size{Files: megabytes << 20}, nil }
	}
	g := Guard{Config: Config{Plans: plan.Set{{ID: "p", MaxStorageMB: 100}}, Logger: slog.New(slog.DiscardHandler)}}
	c, err := g.assess(t.Context(), store.Measured{PlanID: "p"}, 110<<20, of(110), of(60))
	assert.True(t, err == nil && c.Bytes == 60<<20 && c.Level == 0, "smaller: %+v, %v", c, err)
	c, err = g.assess(t.Context(), store.Measured{PlanID: "p"}, 110<<20, of(85), nil)
	assert.True(t, err == nil && c.Bytes == 85<<20 && c.Level == 80, "nothing to decide: %+v, %v", c, err)
}

// An instance that a failed restore freezes after its accounts were listed gets no write privileges: its server is not
// even asked.
func TestReconcileLeavesWhatWasFrozenMeanwhile(t *testing.T) {
	t.Parallel()
	s := servers.Store(t)
	require.NoError(t, s.InTx(t.Context(), func(tx *store.Tx) error {
		tx.Adopt(store.InstanceCopy{ID: "i", Database: "db", FrozenSince: new(time.Now())}, store.SharedLocation("a"))
		return nil
	}))
	g := Guard{Config: Config{Store: s}}
	assert.NoError(t, g.reconcile(t.Context(), store.DueAccount{InstanceID: "i", Account: "a"}))
}

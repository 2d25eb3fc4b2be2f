package quota

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"mysql-broker/provisioner/mysqladmin"
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

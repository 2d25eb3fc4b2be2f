package quota

import (
	"context"
	"testing"
	"time"

	"mysql-broker/provisioner/mysqladmin"
)

// A tenant who makes it impossible to measure the reusable space does not escape the quota.
func TestFilesOfTwiceTheQuotaNeedNoOtherFigure(t *testing.T) {
	t.Parallel()
	silent := func(ctx context.Context) (mysqladmin.Size, error) {
		if until, limited := ctx.Deadline(); !limited || time.Until(until) >= freshTime {
			t.Error("a measurement can take longer than it may be old")
		}
		return mysqladmin.Size{}, context.DeadlineExceeded
	}
	if got, err := used(t.Context(), 200, 100, silent); err != nil || got != 100 {
		t.Errorf("files of twice the quota: %d, %v", got, err)
	}
	if got, err := used(t.Context(), 199, 100, silent); err == nil {
		t.Errorf("files of less: %d", got)
	}
	told := func(context.Context) (mysqladmin.Size, error) { return mysqladmin.Size{Files: 200, Reusable: 120}, nil }
	if got, err := used(t.Context(), 200, 90, told); err != nil || got != 110 {
		t.Errorf("with the figure: %d, %v", got, err)
	}
}

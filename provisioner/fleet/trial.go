package fleet

import (
	"context"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

// Try returns the error of the launcher, which must be a launcher.Checker, if it refuses servers of a plan. It creates
// nothing.
func (l Launcher) Try(ctx context.Context, p plan.Plan) error {
	return l.Launcher.(launcher.Checker).Try(ctx, launcher.Spec{ID: "d_trial", MemoryMB: p.MemoryMB, MilliCPU: p.MilliCPU,
		StorageMB: p.MaxStorageMB, Placement: p.Placement, AdminUser: adminUser, AdminPassword: "trial"})
}

package provisioner

import (
	"context"
	"fmt"

	"mysql-broker/store"
)

// Bindings tells how many bindings an instance has, and how many its plan allows: 0 if nobody knows.
func (p *Provisioner) Bindings(ctx context.Context, i store.Instance) (n, allowed int, err error) {
	if n, err = p.store.CountBindings(ctx, i.ID); err != nil {
		return 0, 0, fmt.Errorf("count the instance's bindings: %w", err)
	}
	return n, p.planOf(i).MaxBindings, nil
}

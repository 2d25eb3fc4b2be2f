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

// SoldConnections adds up, for each shared server, how many connections its bindings may open at the same time. Those
// of instances whose plan was taken out of the catalog are left out: nobody knows how many they may open.
func SoldConnections(plans []Plan, bindings []store.BindingCount) map[string]int64 {
	each := make(map[string]int64, len(plans))
	for _, p := range plans {
		each[p.ID] = int64(p.MaxConnections)
	}
	sold := map[string]int64{}
	for _, b := range bindings {
		if b.Server != "" {
			sold[b.Server] += b.Count * each[b.PlanID]
		}
	}
	return sold
}

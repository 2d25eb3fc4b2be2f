package shared

import (
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// SoldConnections returns, for each shared server, how many connections its bindings may open at the same time. It
// leaves out instances with a removed plan, whose limit is unknown.
func SoldConnections(plans plan.Set, bindings []store.Count) map[string]int64 {
	sold := map[string]int64{}
	for _, b := range bindings {
		if b.Server != store.DedicatedServers {
			sold[b.Server] += b.Count * int64(plans.Get(b.PlanID).MaxConnections)
		}
	}
	return sold
}

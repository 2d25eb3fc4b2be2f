package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/shared"
)

var (
	serverUpDesc     = desc("mysql_broker_shared_server_up", "1 if the shared server answers, else 0.", "server")
	serverUsableDesc = desc("mysql_broker_shared_server_usable", "1 if the broker's account on the shared server had "+
		"every privilege that it needs, and the server every setting that is required, at the last check, else 0: the "+
		"server then gets no instances. The broker checks every 10 minutes, or every 10 seconds while something is "+
		"missing.", "server")
	loadDesc = desc("mysql_broker_shared_server_databases", "Databases of service instances on the shared server, "+
		"including those in creation or deletion.", "server")
	drainedDesc = desc("mysql_broker_shared_server_drained", "1 if the shared server is drained and gets no more "+
		"instances, else 0.", "server")
	capacityDesc = desc("mysql_broker_shared_server_max_databases", "Maximum number of databases on the shared "+
		"server.", "server")
	soldDesc = desc("mysql_broker_shared_server_sold_connections", "Connections that all bindings on the shared server "+
		"together may have open at the same time. If counting takes longer than 0.1 s, the figure is up to a minute "+
		"old.", "server")
	connectionsDesc = desc("mysql_broker_shared_server_connections", "Open connections of the shared server, including "+
		"the broker's own.", "server")
	maxConnectionsDesc = desc("mysql_broker_shared_server_max_connections", "Connections that the shared server allows "+
		"at the same time (max_connections).", "server")
	poolDesc = desc("mysql_broker_pool_connections", "Connections of this process; server is empty for PostgreSQL, else "+
		"a shared server.", "server", "state")
	poolWaitDesc = desc("mysql_broker_pool_waits_total", "How often this process waited for a connection; server is "+
		"empty for PostgreSQL, else a shared server.", "server")
)

func (c *stateCollector) collectLoads(ctx context.Context, ch chan<- prometheus.Metric) error {
	states, err := c.store.Servers.States(ctx, c.shared.Names())
	if err != nil {
		return err
	}
	for _, name := range c.shared.Names() {
		gauge(ch, loadDesc, float64(states[name].Instances), name)
		gauge(ch, drainedDesc, oneIf(states[name].Drained()), name)
	}
	return nil
}

func (c *stateCollector) collectSold(ctx context.Context, ch chan<- prometheus.Metric) error {
	bindings, err := c.bound.counts(ctx)
	if err != nil {
		return err
	}
	sold := shared.SoldConnections(c.plans, bindings)
	for _, name := range c.shared.Names() {
		gauge(ch, soldDesc, float64(sold[name]), name)
	}
	return nil
}

// collectServers queries the shared servers, which have their own time limit.
func (c *stateCollector) collectServers(ch chan<- prometheus.Metric) {
	health := c.shared.Health(context.Background())
	for name, err := range health {
		gauge(ch, serverUpDesc, oneIf(err == nil), name)
	}
	for name, connections := range c.shared.Connections(context.Background(), health) {
		gauge(ch, connectionsDesc, float64(connections.Open), name)
		gauge(ch, maxConnectionsDesc, float64(connections.Max), name)
	}
	for _, server := range c.shared.All() {
		gauge(ch, serverUsableDesc, oneIf(server.Usable()), server.Name())
		gauge(ch, capacityDesc, float64(server.MaxDatabases), server.Name())
	}
}

func (c *stateCollector) collectPools(ch chan<- prometheus.Metric) {
	waits := func(v float64, name string) {
		ch <- prometheus.MustNewConstMetric(poolWaitDesc, prometheus.CounterValue, v, name)
	}
	pool := c.store.PoolStat()
	gauge(ch, poolDesc, float64(pool.AcquiredConns()), "", "in_use")
	gauge(ch, poolDesc, float64(pool.IdleConns()), "", "idle")
	waits(float64(pool.EmptyAcquireCount()), "")
	for _, server := range c.shared.All() {
		stats := server.Stats()
		gauge(ch, poolDesc, float64(stats.InUse), server.Name(), "in_use")
		gauge(ch, poolDesc, float64(stats.Idle), server.Name(), "idle")
		waits(float64(stats.WaitCount), server.Name())
	}
}

package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// drainedCollector shows at each scrape which shared servers are drained.
type drainedCollector struct {
	store  *store.Store
	shared *shared.Servers
	log    *slog.Logger
}

var drainedDesc = prometheus.NewDesc("mysql_broker_shared_server_drained",
	"1 if `mysql-broker drain` has the shared server get no more instances, else 0.", []string{"server"}, nil)

// Describe implements prometheus.Collector.
func (c drainedCollector) Describe(ch chan<- *prometheus.Desc) { ch <- drainedDesc }

// Collect implements prometheus.Collector.
func (c drainedCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	states, err := c.store.ServerStates(ctx, c.shared.Names())
	if err != nil {
		c.log.Warn("could not read which shared servers are drained for /metrics", "error", err)
		return
	}
	for _, name := range c.shared.Names() {
		drained := 0.0
		if states[name].Drained() {
			drained = 1
		}
		ch <- prometheus.MustNewConstMetric(drainedDesc, prometheus.GaugeValue, drained, name)
	}
}

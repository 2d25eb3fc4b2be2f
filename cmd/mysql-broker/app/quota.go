package app

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// fullestShown limits the instances with their own series, because there could be a million. unmeasuredShown limits the
// dedicated servers with their own series: those that were not measured for unmeasuredTime, or for two intervals if
// that is longer.
const (
	fullestShown    = 100
	unmeasuredShown = 20
	unmeasuredTime  = 30 * time.Minute
)

// quotaCollector reads at each scrape how full instances are. Every replica exports the same figures.
type quotaCollector struct {
	store     *store.Store
	counter   counter[store.QuotaStats]
	servers   []string  // whose measurements are exported
	since     time.Time // used for servers that were never measured
	dedicated bool      // whether there can be dedicated servers
	missed    time.Duration
	plans     plan.Set
	names     map[string]string // of plans, by id
	log       *slog.Logger
}

var (
	quotaInstancesDesc = desc("mysql_broker_quota_instances", "Service instances whose data takes at least 80 or 90 per "+
		"cent of their plan's storage (level), or have reached 100 and cannot grow until they take less than 95. If "+
		"counting takes longer than 0.1 s, the figure is up to a minute old.", "plan", "level")
	quotaBytesDesc = desc("mysql_broker_instance_storage_bytes", "Bytes that the data of a service instance take: the "+
		"100 fullest of those that have reached 80 per cent of their plan's storage.", "instance_id", "plan")
	quotaLimitDesc = desc("mysql_broker_instance_storage_quota_bytes", "Bytes that the plan of such a service instance "+
		"allows.", "instance_id", "plan")
	quotaDueDesc = desc("mysql_broker_quota_accounts_due", "Accounts whose privileges have to change because their "+
		"service instance went over its quota, or below it.")
	quotaMeasuredDesc = desc("mysql_broker_quota_measurement_timestamp_seconds", "When all databases of a shared server, "+
		"or those dedicated servers that can be (server is empty), were last measured, in seconds since 1970, or when the "+
		"broker started if they never were; and the same of up to 20 dedicated servers that were not measured for half an "+
		"hour, or for two intervals.", "server")
)

// newQuotaCollector returns the collector of a broker that measures in an interval. dedicated says whether there is a
// launcher.
func newQuotaCollector(s *store.Store, servers *shared.Servers, dedicated bool, interval time.Duration,
	plans plan.Set, log *slog.Logger) prometheus.Collector {
	c := &quotaCollector{store: s, servers: servers.Names(), since: time.Now(), dedicated: dedicated,
		missed: max(unmeasuredTime, 2*interval), plans: plans, names: planNames(plans), log: log}
	if dedicated {
		c.servers = append(c.servers, store.DedicatedServers)
	}
	c.counter.count = func(ctx context.Context) (store.QuotaStats, error) { return s.Usage.Stats(ctx, fullestShown) }
	return prometheus.CollectorFunc(c.collect)
}

// collect omits figures that cannot be read.
func (c *quotaCollector) collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	stats, err := c.counter.counts(ctx)
	if err != nil {
		c.log.Warn("could not count full instances for /metrics", "error", err)
		return
	}
	counts := map[string]map[int]int64{} // every plan has all levels, so that each series starts at 0
	for _, p := range c.plans {
		counts[p.ID] = map[int]int64{}
	}
	for _, n := range stats.Counts {
		if counts[n.PlanID] == nil {
			counts[n.PlanID] = map[int]int64{}
		}
		counts[n.PlanID][n.Level] = n.Count
	}
	for id, of := range counts {
		for _, level := range quota.Levels() {
			gauge(ch, quotaInstancesDesc, float64(of[level]), planLabel(c.names, id), strconv.Itoa(level))
		}
	}
	for _, i := range stats.Fullest {
		plan := planLabel(c.names, i.PlanID)
		gauge(ch, quotaBytesDesc, float64(i.Bytes), i.InstanceID, plan)
		if limit := c.plans.Get(i.PlanID).Quota(); limit > 0 {
			gauge(ch, quotaLimitDesc, float64(limit), i.InstanceID, plan)
		}
	}
	due, err := c.store.Tasks.DueCount(ctx)
	if err != nil {
		c.log.Warn("could not count for /metrics the accounts whose privileges are due", "error", err)
		return
	}
	gauge(ch, quotaDueDesc, float64(due))
	if err := c.collectMeasurements(ctx, ch); err != nil {
		c.log.Warn("could not read for /metrics when storage was measured", "error", err)
	}
}

func (c *quotaCollector) collectMeasurements(ctx context.Context, ch chan<- prometheus.Metric) error {
	measured, err := c.store.Usage.Measurements(ctx)
	if err != nil {
		return err
	}
	shown := map[string]time.Time{}
	if c.dedicated {
		if shown, err = c.store.Usage.Unmeasured(ctx, c.missed, unmeasuredShown); err != nil {
			return err
		}
	}
	for _, server := range c.servers {
		shown[server] = c.since
		if at, known := measured[server]; known {
			shown[server] = at
		}
	}
	for server, at := range shown {
		gauge(ch, quotaMeasuredDesc, float64(at.UnixMilli())/1000, server)
	}
	return nil
}

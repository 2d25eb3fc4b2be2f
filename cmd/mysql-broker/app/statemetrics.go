package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/clock"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// stateCollector exports the state that all replicas share: it reads PostgreSQL and the shared servers at each scrape.
type stateCollector struct {
	store  *store.Store
	totals counter[store.Counts]
	bound  counter[[]store.Count]

	organizations counter[[]store.OrganizationCount]

	shared    *shared.Servers
	plans     plan.Set
	names     map[string]string // of the plans, by id
	limits    plan.Limits
	keepMoved time.Duration
	backsUp   bool // this broker has an object store
	log       *slog.Logger
}

const scrapeTimeout = 5 * time.Second

var (
	instancesDesc = desc("mysql_broker_instances", "Service instances; server is empty for dedicated ones. If counting "+
		"takes longer than 0.1 s, the figure is up to a minute old.", "plan", "server")
	bindingsDesc = desc("mysql_broker_bindings", "Service bindings. If counting takes longer than 0.1 s, the figure is "+
		"up to a minute old.")
	postgresUpDesc = desc("mysql_broker_postgresql_up", "1 if PostgreSQL answers this process, accepts writes and has "+
		"room for them, else 0. If it does not answer, instances, bindings and tasks are missing.")
	heldDesc = desc("mysql_broker_held", "1 if PostgreSQL is older than the servers, so that only reads, polls and binds "+
		"work until `mysql-broker recover`, else 0.")
	tasksDesc = desc("mysql_broker_tasks", "Tasks of all replicas that have not ended: a worker runs them (in_progress), "+
		"or they wait for one (waiting).", "kind", "state")
	oldestDesc = desc("mysql_broker_task_oldest_age_seconds", "Age in seconds of the oldest task of the kind that has "+
		"not ended; 0 if there is none.", "kind")
	stalledDesc = desc("mysql_broker_task_stalled_seconds", "For how long the task of the kind that has stood still for "+
		"longest has finished no step, copied nothing and not waited for its turn; 0 if there is none.", "kind")
	retainedDesc      = desc("mysql_broker_retained_instances", "Deleted service instances whose data can be taken back.")
	retainedBytesDesc = desc("mysql_broker_retained_bytes", "Bytes of data of deleted service instances that can be "+
		"taken back, as last measured before the deletion.")
	retainedOverdueDesc = desc("mysql_broker_retained_overdue_seconds", "For how long the data of a deleted service "+
		"instance should have been dropped already.")
	expiryOverdueDesc = desc("mysql_broker_binding_expiry_overdue_seconds", "For how long a binding should have ended by "+
		"itself already.")
	frozenDesc = desc("mysql_broker_frozen_instances", "Service instances whose accounts may not write because a restore "+
		"in place failed and could not be undone.")
	clocksDesc = desc("mysql_broker_clocks_disagree", "1 if PostgreSQL's clock is more than an hour apart from this "+
		"host's or from the shared servers', so that nothing is destroyed for its age.")
	movesDesc   = desc("mysql_broker_moves", "Service instances whose data is being moved to another server.")
	moveAgeDesc = desc("mysql_broker_move_oldest_age_seconds", "Age in seconds of the oldest move of data that has not "+
		"ended; 0 if there is none.")
	formerDesc = desc("mysql_broker_former_places", "Service instances whose data was moved and can still be read where "+
		"they were.")
	formerOverdueDesc = desc("mysql_broker_former_place_overdue_seconds", "For how long the place where an instance's "+
		"data was before should have been removed already.")
)

func (a *App) newStateCollector(backsUp bool) prometheus.Collector {
	c := &stateCollector{store: a.store, totals: counter[store.Counts]{count: a.store.Reports.Counts},
		bound:         counter[[]store.Count]{count: a.store.Reports.BindingCounts},
		organizations: counter[[]store.OrganizationCount]{count: a.store.Reports.OrganizationCounts}, shared: a.shared,
		plans: a.catalog.Plans(), names: planNames(a.catalog.Plans()), limits: a.catalog.Limits(),
		keepMoved: a.cfg.KeepMoved, backsUp: backsUp, log: a.log}
	return prometheus.CollectorFunc(c.collect)
}

// collect omits figures that cannot be read.
func (c *stateCollector) collect(ch chan<- prometheus.Metric) {
	// Concurrently, so that a slow PostgreSQL does not make the servers seem down.
	var asked sync.WaitGroup
	asked.Go(func() { c.collectRecorded(ch) })
	asked.Go(func() { c.collectServers(ch) })
	asked.Go(func() { c.collectClocks(ch) })
	asked.Wait()
	c.collectPools(ch)
	c.collectLimits(ch)
}

// collectClocks exports nothing if PostgreSQL's clock cannot be read.
func (c *stateCollector) collectClocks(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	err := clock.Compare(ctx, c.store, c.shared)
	if _, disagree := errors.AsType[*clock.Error](err); disagree || err == nil {
		gauge(ch, clocksDesc, oneIf(disagree))
	}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// collectRecorded exports figures from PostgreSQL, the cheapest ones first.
func (c *stateCollector) collectRecorded(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	tasks, err := c.store.Tasks.StatsByKind(ctx)
	up := err == nil
	if up {
		writing := c.store.Writable(ctx)
		up = !errors.Is(writing, store.ErrReadOnly) && !errors.Is(writing, store.ErrFull)
	}
	gauge(ch, postgresUpDesc, oneIf(up))
	if err != nil {
		c.log.Warn("could not count tasks for /metrics", "error", err)
		return
	}
	for kind := range provisioner.TaskKinds() {
		var of store.TaskStats
		if i := slices.IndexFunc(tasks, func(t store.KindStats) bool { return t.Kind == kind }); i >= 0 {
			of = tasks[i].TaskStats
		}
		gauge(ch, tasksDesc, float64(of.InProgress), kind, "in_progress")
		gauge(ch, tasksDesc, float64(of.Waiting), kind, "waiting")
		gauge(ch, oldestDesc, of.Oldest.Seconds(), kind)
		gauge(ch, stalledDesc, of.Stalled.Seconds(), kind)
	}
	for _, figures := range []struct {
		doing   string
		collect func(context.Context, chan<- prometheus.Metric) error
	}{
		{"read whether PostgreSQL is held", c.collectHold},
		{"read how full the shared servers are", c.collectLoads},
		{"count instances and bindings", c.collectTotals},
		{"count the moves of data", c.collectMoves},
		{"read the figures of the backups", c.collectBackups},
		{"read the figures of the archived binary logs", c.collectLogs},
		{"count the bindings on shared servers", c.collectSold},
	} {
		if err := figures.collect(ctx, ch); err != nil {
			c.log.Warn("could not "+figures.doing+" for /metrics", "error", err)
		}
	}
}

func (c *stateCollector) collectHold(ctx context.Context, ch chan<- prometheus.Metric) error {
	held, err := c.store.Recovery.Hold(ctx)
	if err == nil {
		gauge(ch, heldDesc, oneIf(held != nil))
	}
	return err
}

func (c *stateCollector) collectTotals(ctx context.Context, ch chan<- prometheus.Metric) error {
	counts, err := c.totals.counts(ctx)
	if err != nil {
		return err
	}
	for _, i := range counts.Instances {
		gauge(ch, instancesDesc, float64(i.Count), planLabel(c.names, i.PlanID), i.Server)
	}
	gauge(ch, bindingsDesc, float64(counts.Bindings))
	gauge(ch, retainedDesc, float64(counts.Retained))
	gauge(ch, retainedBytesDesc, float64(counts.RetainedBytes))
	gauge(ch, retainedOverdueDesc, counts.RetainedOverdue)
	gauge(ch, expiryOverdueDesc, counts.ExpiryOverdue)
	gauge(ch, frozenDesc, float64(counts.Frozen))
	return nil
}

func (c *stateCollector) collectMoves(ctx context.Context, ch chan<- prometheus.Metric) error {
	stats, err := c.store.Instances.MoveStats(ctx, c.keepMoved)
	if err != nil {
		return err
	}
	gauge(ch, movesDesc, float64(stats.Moving))
	gauge(ch, moveAgeDesc, stats.Oldest)
	gauge(ch, formerDesc, float64(stats.Former))
	gauge(ch, formerOverdueDesc, stats.Overdue)
	return nil
}

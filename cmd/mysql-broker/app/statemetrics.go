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
	"mysql-broker/provisioner/archive"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// stateCollector exports the state that all replicas share: it reads PostgreSQL and the shared servers at each scrape.
type stateCollector struct {
	store  *store.Store
	totals counter[store.Counts]
	bound  counter[[]store.BindingCount]

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
	instancesDesc = prometheus.NewDesc("mysql_broker_instances",
		"Service instances; server is empty for dedicated ones. If counting takes longer than 0.1 s, the figure is up to "+
			"a minute old.", []string{"plan", "server"}, nil)
	limitDesc = prometheus.NewDesc("mysql_broker_instance_limit",
		"Service instances that there may be of the plan, or of all plans if plan is empty. Missing without a limit.",
		[]string{"plan"}, nil)
	organizationDesc = prometheus.NewDesc("mysql_broker_organization_instances",
		"Service instances of the plan, or of all plans if plan is empty, of the organization that has the most. Only for "+
			"limits of organizations. If counting takes longer than 0.1 s, the figure is up to a minute old.",
		[]string{"plan"}, nil)
	organizationLimitDesc = prometheus.NewDesc("mysql_broker_organization_instance_limit",
		"Service instances of the plan, or of all plans if plan is empty, that an organization may have. Missing without "+
			"a limit.", []string{"plan"}, nil)
	bindingsDesc = prometheus.NewDesc("mysql_broker_bindings",
		"Service bindings. If counting takes longer than 0.1 s, the figure is up to a minute old.", nil, nil)
	postgresUpDesc = prometheus.NewDesc("mysql_broker_postgresql_up",
		"1 if PostgreSQL answers this process and accepts writes, else 0. If it does not answer, instances, "+
			"bindings and tasks are missing.", nil, nil)
	heldDesc = prometheus.NewDesc("mysql_broker_held",
		"1 if PostgreSQL is older than the servers, so that only reads, polls and binds work until `mysql-broker recover`, "+
			"else 0.", nil, nil)
	tasksDesc = prometheus.NewDesc("mysql_broker_tasks",
		"Tasks of all replicas that have not ended: a worker runs them (in_progress), or they wait for one (waiting).",
		[]string{"kind", "state"}, nil)
	oldestDesc = prometheus.NewDesc("mysql_broker_task_oldest_age_seconds",
		"Age in seconds of the oldest task of the kind that has not ended; 0 if there is none.", []string{"kind"}, nil)
	stalledDesc = prometheus.NewDesc("mysql_broker_task_stalled_seconds",
		"For how long a task of the kind has finished no step, copied nothing and not waited for its turn: that one which "+
			"has stood still for longest; 0 if there is none.", []string{"kind"}, nil)
	serverUpDesc = prometheus.NewDesc("mysql_broker_shared_server_up",
		"1 if the shared server answers, else 0.", []string{"server"}, nil)
	serverUsableDesc = prometheus.NewDesc("mysql_broker_shared_server_usable",
		"1 if the broker's account on the shared server had every privilege that it needs, and the server every setting "+
			"that is required, when they were last looked for, which is every 10 minutes, or every 10 seconds while one is "+
			"missing, else 0: the server then gets no instances.",
		[]string{"server"}, nil)
	loadDesc = prometheus.NewDesc("mysql_broker_shared_server_databases",
		"Databases of service instances on the shared server, including those in creation or deletion.",
		[]string{"server"}, nil)
	drainedDesc = prometheus.NewDesc("mysql_broker_shared_server_drained",
		"1 if the shared server is drained and gets no more instances, else 0.", []string{"server"}, nil)
	capacityDesc = prometheus.NewDesc("mysql_broker_shared_server_max_databases",
		"Maximum number of databases on the shared server.", []string{"server"}, nil)
	soldDesc = prometheus.NewDesc("mysql_broker_shared_server_sold_connections",
		"Connections that all bindings on the shared server together may have open at the same time. If counting "+
			"takes longer than 0.1 s, the figure is up to a minute old.", []string{"server"}, nil)
	retainedDesc = prometheus.NewDesc("mysql_broker_retained_instances",
		"Deleted service instances whose data can come back.", nil, nil)
	retainedBytesDesc = prometheus.NewDesc("mysql_broker_retained_bytes",
		"Bytes of data of deleted service instances that can come back, as last measured before the deletion.", nil, nil)
	retainedOverdueDesc = prometheus.NewDesc("mysql_broker_retained_overdue_seconds",
		"For how long the data of a deleted service instance should have been dropped already.", nil, nil)
	expiryOverdueDesc = prometheus.NewDesc("mysql_broker_binding_expiry_overdue_seconds",
		"For how long a binding should have ended by itself already.", nil, nil)
	frozenDesc = prometheus.NewDesc("mysql_broker_frozen_instances",
		"Service instances whose accounts may not write because a restore in place failed and could not be undone.",
		nil, nil)
	movesDesc = prometheus.NewDesc("mysql_broker_moves",
		"Service instances whose data are being moved to another server.", nil, nil)
	moveAgeDesc = prometheus.NewDesc("mysql_broker_move_oldest_age_seconds",
		"Age in seconds of the oldest move of data that has not ended; 0 if there is none.", nil, nil)
	formerDesc = prometheus.NewDesc("mysql_broker_former_places",
		"Service instances whose data were moved and can still be read where they were.", nil, nil)
	formerOverdueDesc = prometheus.NewDesc("mysql_broker_former_place_overdue_seconds",
		"For how long the place where an instance's data were before should have been removed already.", nil, nil)
	copiesDesc = prometheus.NewDesc("mysql_broker_copies",
		"Copies, backups and restores that this process runs now.", nil, nil)
	copyDoneDesc = prometheus.NewDesc("mysql_broker_copy_done_bytes",
		"Bytes that a copy in this process has copied or compared.", []string{"task"}, nil)
	copyDesc = prometheus.NewDesc("mysql_broker_copy_bytes",
		"About how many bytes a copy in this process will have copied or compared.", []string{"task"}, nil)
	backupsDesc     = prometheus.NewDesc("mysql_broker_backups", "Complete backups.", nil, nil)
	backupBytesDesc = prometheus.NewDesc("mysql_broker_backup_bytes", "Bytes of complete backups in the object store.",
		nil, nil)
	damagedDesc = prometheus.NewDesc("mysql_broker_backups_damaged",
		"Complete backups that a verification could not restore.", nil, nil)
	backupAgeDesc = prometheus.NewDesc("mysql_broker_backup_age_seconds",
		"Age of the newest verified backup, of that instance of the plan whose newest is the oldest. An instance without "+
			"one counts with its own age. Only plans with backup_every_hours are shown, by brokers with an object store.",
		[]string{"plan"}, nil)
	backupIntervalDesc = prometheus.NewDesc("mysql_broker_backup_interval_seconds",
		"How often instances of the plan are to be backed up.", []string{"plan"}, nil)
	logAgeDesc = prometheus.NewDesc("mysql_broker_binary_log_age_seconds",
		"For how long changes were not archived, of that instance of the plan where that is the longest. An instance "+
			"without an archive counts with its own age. Only plans with archive_binary_logs are shown.", []string{"plan"}, nil)
	logBytesDesc = prometheus.NewDesc("mysql_broker_binary_log_bytes",
		"Bytes of binary logs that were written to the object store, as long as one of their backups is there.", nil, nil)
	connectionsDesc = prometheus.NewDesc("mysql_broker_shared_server_connections",
		"Open connections of the shared server, including the broker's own.", []string{"server"}, nil)
	maxConnectionsDesc = prometheus.NewDesc("mysql_broker_shared_server_max_connections",
		"Connections that the shared server allows at the same time (max_connections).", []string{"server"}, nil)
	poolDesc = prometheus.NewDesc("mysql_broker_pool_connections",
		"Connections of this process; server is empty for PostgreSQL, else a shared server.",
		[]string{"server", "state"}, nil)
	poolWaitDesc = prometheus.NewDesc("mysql_broker_pool_waits_total",
		"How often this process waited for a connection; server is empty for PostgreSQL, else a shared server.",
		[]string{"server"}, nil)
)

func (a *App) newStateCollector(backsUp bool) prometheus.Collector {
	c := &stateCollector{store: a.store, totals: counter[store.Counts]{count: a.store.Counts},
		bound:         counter[[]store.BindingCount]{count: a.store.BindingCounts},
		organizations: counter[[]store.OrganizationCount]{count: a.store.OrganizationCounts}, shared: a.shared,
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
	asked.Wait()
	c.collectPools(ch)
	c.collectLimits(ch)
}

// collectLimits exports the limits, and how near organizations are to theirs.
func (c *stateCollector) collectLimits(ch chan<- prometheus.Metric) {
	limits := map[string]plan.Limits{"": c.limits} // by the plan's id, "" for all
	for _, p := range c.plans {
		limits[p.ID] = p.Limits
	}
	ofOrganizations := false
	for id, l := range limits {
		if l.Instances > 0 {
			gauge(ch, limitDesc, float64(l.Instances), c.limitLabel(id))
		}
		ofOrganizations = ofOrganizations || l.PerOrganization > 0
	}
	if !ofOrganizations {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	counts, err := c.organizations.counts(ctx)
	if err != nil {
		c.log.Warn("could not count the instances of organizations for /metrics", "error", err)
	}
	most := store.MostInOrganization(counts)
	for id, l := range limits {
		if l.PerOrganization == 0 {
			continue
		}
		gauge(ch, organizationLimitDesc, float64(l.PerOrganization), c.limitLabel(id))
		if err == nil {
			gauge(ch, organizationDesc, float64(most[id]), c.limitLabel(id))
		}
	}
}

func (c *stateCollector) limitLabel(planID string) string {
	if planID == "" {
		return ""
	}
	return planLabel(c.names, planID)
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

// oneIf returns a boolean as Prometheus's 1 or 0.
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
	tasks, err := c.store.TaskStatsByKind(ctx)
	readOnly := err == nil && errors.Is(c.store.Writable(ctx), store.ErrReadOnly)
	gauge(ch, postgresUpDesc, oneIf(err == nil && !readOnly))
	if err != nil {
		c.log.Warn("could not count tasks for /metrics", "error", err)
		return
	}
	if held, err := c.store.Hold(ctx); err != nil {
		c.log.Warn("could not read for /metrics whether PostgreSQL is held", "error", err)
	} else {
		gauge(ch, heldDesc, oneIf(held != nil))
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
	if states, err := c.store.ServerStates(ctx, c.shared.Names()); err != nil {
		c.log.Warn("could not read how full the shared servers are for /metrics", "error", err)
	} else {
		for _, name := range c.shared.Names() {
			gauge(ch, loadDesc, float64(states[name].Instances), name)
			gauge(ch, drainedDesc, oneIf(states[name].Drained()), name)
		}
	}
	if counts, err := c.totals.counts(ctx); err != nil {
		c.log.Warn("could not count instances and bindings for /metrics", "error", err)
	} else {
		for _, i := range counts.Instances {
			gauge(ch, instancesDesc, float64(i.Count), planLabel(c.names, i.PlanID), i.Server)
		}
		gauge(ch, bindingsDesc, float64(counts.Bindings))
		gauge(ch, retainedDesc, float64(counts.Retained.Instances))
		gauge(ch, retainedBytesDesc, float64(counts.Retained.Bytes))
		gauge(ch, retainedOverdueDesc, counts.Retained.Overdue)
		gauge(ch, expiryOverdueDesc, counts.ExpiryOverdue)
		gauge(ch, frozenDesc, float64(counts.Frozen))
	}
	c.collectMoves(ctx, ch)
	c.collectBackups(ctx, ch)
	c.collectLogs(ctx, ch)
	if bindings, err := c.bound.counts(ctx); err != nil {
		c.log.Warn("could not count the bindings on shared servers for /metrics", "error", err)
	} else {
		sold := shared.SoldConnections(c.plans, bindings)
		for _, name := range c.shared.Names() {
			gauge(ch, soldDesc, float64(sold[name]), name)
		}
	}
}

func (c *stateCollector) collectMoves(ctx context.Context, ch chan<- prometheus.Metric) {
	stats, err := c.store.MoveStats(ctx, c.keepMoved)
	if err != nil {
		c.log.Warn("could not count the moves of data for /metrics", "error", err)
		return
	}
	gauge(ch, movesDesc, float64(stats.Moving))
	gauge(ch, moveAgeDesc, stats.Oldest)
	gauge(ch, formerDesc, float64(stats.Former))
	gauge(ch, formerOverdueDesc, stats.Overdue)
}

// collectCopies exports the progress of the copies in this process.
func collectCopies(copies func() (running int, all []provisioner.Copy)) prometheus.CollectorFunc {
	return func(ch chan<- prometheus.Metric) {
		running, all := copies()
		gauge(ch, copiesDesc, float64(running))
		for _, c := range all {
			gauge(ch, copyDoneDesc, float64(c.Done), task.Token(c.Task))
			gauge(ch, copyDesc, float64(c.Total), task.Token(c.Task))
		}
	}
}

// collectBackups exports nothing if there are no backups and no plan has a schedule.
func (c *stateCollector) collectBackups(ctx context.Context, ch chan<- prometheus.Metric) {
	var schedules []store.BackupSchedule
	if c.backsUp {
		schedules = provisioner.BackupSchedules(c.plans)
	}
	stats, err := c.store.BackupStats(ctx, schedules)
	if err != nil {
		c.log.Warn("could not read the figures of the backups for /metrics", "error", err)
		return
	}
	if stats.Backups == 0 && len(schedules) == 0 {
		return
	}
	gauge(ch, backupsDesc, float64(stats.Backups))
	gauge(ch, backupBytesDesc, float64(stats.Bytes))
	gauge(ch, damagedDesc, float64(stats.Damaged))
	for _, s := range schedules {
		gauge(ch, backupIntervalDesc, s.Every.Seconds(), planLabel(c.names, s.PlanID))
	}
	for _, a := range stats.Ages {
		gauge(ch, backupAgeDesc, a.Age.Seconds(), planLabel(c.names, a.PlanID))
	}
}

// collectLogs exports nothing if no plan archives binary logs, or this broker archives none.
func (c *stateCollector) collectLogs(ctx context.Context, ch chan<- prometheus.Metric) {
	plans := archive.Plans(c.plans)
	if len(plans) == 0 || !c.backsUp {
		return
	}
	stats, err := c.store.LogStats(ctx, plans)
	if err != nil {
		c.log.Warn("could not read the figures of the archived binary logs for /metrics", "error", err)
		return
	}
	gauge(ch, logBytesDesc, float64(stats.Bytes))
	for _, a := range stats.Ages {
		gauge(ch, logAgeDesc, a.Age.Seconds(), planLabel(c.names, a.PlanID))
	}
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

package app

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/cmd/mysql-broker/version"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// metrics counts what happens in this process. For the state that all replicas share, see stateCollector.
type metrics struct {
	plans      map[string]string // names by id
	operations *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	retries    *prometheus.CounterVec
	ranOut     prometheus.Counter
	full       prometheus.Counter
}

// planNames maps ids to plans' names. It omits a name that two service offerings use, because that is ambiguous.
func planNames(plans plan.Set) map[string]string {
	names, ids := make(map[string]string, len(plans)), make(map[string]string, len(plans))
	for _, p := range plans {
		if other, taken := ids[p.Name]; taken {
			delete(names, other)
			continue
		}
		names[p.ID], ids[p.Name] = p.Name, p.ID
	}
	return names
}

// planLabel is a plan's name or, if it is no longer in the catalog, its id: labels must be unambiguous.
func planLabel(names map[string]string, id string) string {
	if name, ok := names[id]; ok {
		return name
	}
	return id
}

func newMetrics(r prometheus.Registerer, plans plan.Set) *metrics {
	m := &metrics{
		plans: planNames(plans),
		operations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mysql_broker_operations_total",
			Help: "Operations that ended in this process: succeeded, failed, or cancelled by a deletion."},
			[]string{"kind", "plan", "outcome"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mysql_broker_operation_duration_seconds",
			Help:    "Seconds from the request to the end of an operation, waiting included.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}},
			[]string{"kind", "plan", "outcome"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "mysql_broker_task_retries_total",
			Help: "Steps that failed in this process and are tried again."}, []string{"kind"}),
		ranOut: prometheus.NewCounter(prometheus.CounterOpts{Name: "mysql_broker_task_leases_lost_total",
			Help: "Leases that expired while this process worked on their tasks, because it was paused or could not reach " +
				"PostgreSQL; another process continues."}),
	}
	m.full = prometheus.NewCounter(prometheus.CounterOpts{Name: "mysql_broker_shared_servers_full_total",
		Help: "Service instances refused in this process because every shared server was full."})
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "mysql_broker_build_info",
		Help: "Always 1; the labels identify the build.", ConstLabels: prometheus.Labels{"version": version.Version,
			"go": version.Go()}})
	build.Set(1)
	r.MustRegister(m.operations, m.durations, m.retries, m.ranOut, m.full, build)
	m.beginAtZero()
	return m
}

// beginAtZero exports counters before their first event: for Prometheus, a series that starts with 1 has not increased.
// https://prometheus.io/docs/practices/instrumentation/#avoid-missing-metrics
func (m *metrics) beginAtZero() {
	for name, kind := range provisioner.TaskKinds() {
		m.retries.WithLabelValues(name)
		plans := m.plans
		if kind.Schedule.Every > 0 { // which is done for no instance
			plans = map[string]string{"": ""}
		}
		for _, plan := range plans {
			for _, outcome := range []string{store.Succeeded, store.Failed, store.Cancelled} {
				m.operations.WithLabelValues(name, plan, outcome)
			}
		}
	}
}

func (m *metrics) taskEnded(t store.Task, state string, after time.Duration) {
	labels := prometheus.Labels{"kind": t.Kind, "plan": planLabel(m.plans, t.PlanID), "outcome": state}
	m.operations.With(labels).Inc()
	m.durations.With(labels).Observe(max(after.Seconds(), 0))
}

func (m *metrics) taskRetried(t store.Task) { m.retries.WithLabelValues(t.Kind).Inc() }

package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/provisioner/launcher"
)

var (
	membersDesc = prometheus.NewDesc("mysql_broker_dedicated_members",
		"Servers of dedicated plans with several members, by whether they take part in their group.",
		[]string{"launcher", "state"}, nil)
	noPrimaryDesc = prometheus.NewDesc("mysql_broker_dedicated_groups_without_primary",
		"Groups of dedicated servers in which no member accepts writes.", []string{"launcher"}, nil)
	queueDesc = prometheus.NewDesc("mysql_broker_dedicated_member_queue_max",
		"Transactions that a member of a group of dedicated servers has received and not applied yet: of that member "+
			"which has most.", []string{"launcher"}, nil)
)

// memberCollector collects what launchers see of the members of groups. Every replica exports the same figures. A
// launcher that runs no groups, or cannot be asked, is left out.
type memberCollector struct {
	launchers map[string]launcher.Launcher
	log       *slog.Logger
}

// Describe asks no launcher, unlike that of a prometheus.CollectorFunc: a broker calls it as it starts.
func (c memberCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- membersDesc
	ch <- noPrimaryDesc
	ch <- queueDesc
}

func (c memberCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	for name, l := range c.launchers {
		grouper, ok := l.(launcher.Grouper)
		if !ok {
			continue
		}
		all, err := grouper.Members(ctx)
		if err != nil {
			c.log.Warn("could not read the members of groups for /metrics", "launcher", name, "error", err)
			continue
		}
		collectMembers(ch, name, all)
	}
}

func collectMembers(ch chan<- prometheus.Metric, name string, all map[string][]launcher.Member) {
	counts := map[launcher.MemberState]int{}
	withoutPrimary, queue := 0, 0
	for _, members := range all {
		primary := false
		for _, m := range members {
			counts[m.State]++
			primary = primary || m.Primary
			queue = max(queue, m.Queue)
		}
		if !primary {
			withoutPrimary++
		}
	}
	for _, s := range launcher.AllMemberStates() { // so that each series starts at 0
		gauge(ch, membersDesc, float64(counts[s]), name, string(s))
	}
	gauge(ch, noPrimaryDesc, float64(withoutPrimary), name)
	gauge(ch, queueDesc, float64(queue), name)
}

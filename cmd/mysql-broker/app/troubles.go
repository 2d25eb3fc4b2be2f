package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"mysql-broker/broker/catalog"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

var troublesDesc = desc("mysql_broker_dedicated_servers_in_trouble", "Dedicated servers that do not run, or ended for "+
	"lack of memory or disk within the last hour, as their launcher sees it.", "launcher", "trouble")

// Launched is what launchers know.
type Launched struct {
	Troubles map[string]map[string]launcher.Trouble // by launcher and id
	Plans    plan.Set                               // with the versions of servers that they want
}

// AskLaunchers asks all launchers. If one cannot be asked, the error names it, and the result has what the others know.
func AskLaunchers(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger) (Launched, error) {
	known := Launched{map[string]map[string]launcher.Trouble{}, c.Plans()}
	all, closeAll, err := openLaunchers(cfg.Launchers, passive(log))
	if err != nil {
		return known, err
	}
	defer closeAll()
	var errs []error
	if with, err := WithVersions(c, fleet.New(fleet.Config{Launchers: all})); err == nil {
		known.Plans = with.Plans()
	} else {
		errs = append(errs, err)
	}
	for name, l := range all {
		if observer, ok := l.(launcher.Observer); ok {
			troubles, err := observer.Troubles(ctx)
			if err != nil {
				errs = append(errs, fmt.Errorf("ask the launcher %s which servers are in trouble: %w", name, err))
			}
			known.Troubles[name] = troubles
		}
	}
	return known, errors.Join(errs...)
}

// troubleCollector collects what launchers see of their servers. Every replica exports the same figures. Those of a
// launcher that cannot be asked are left out.
type troubleCollector struct {
	launchers map[string]launcher.Launcher
	log       *slog.Logger
}

// Describe asks no launcher, unlike that of a prometheus.CollectorFunc: a broker calls it as it starts.
func (c troubleCollector) Describe(ch chan<- *prometheus.Desc) { ch <- troublesDesc }

func (c troubleCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	for name, l := range c.launchers {
		observer, ok := l.(launcher.Observer)
		if !ok {
			continue
		}
		troubles, err := observer.Troubles(ctx)
		if err != nil {
			c.log.Warn("could not read which servers are in trouble for /metrics", "launcher", name, "error", err)
			continue
		}
		counts := map[launcher.Trouble]int{}
		for _, t := range troubles {
			counts[t]++
		}
		for _, t := range launcher.AllTroubles() { // so that each series starts at 0
			gauge(ch, troublesDesc, float64(counts[t]), name, string(t))
		}
	}
}

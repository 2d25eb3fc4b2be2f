// Package dashboard serves the pages behind dashboard_url: a page of each service instance for developers, and an
// overview for operators. The server renders complete pages; a little JavaScript updates open ones.
package dashboard

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"mysql-broker/broker/signin"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// Config has the sources of the pages.
type Config struct {
	Store  *store.Store
	SignIn *signin.SignIn
	Plans  plan.Set
	Fleet  *fleet.Fleet
	// Provisioner knows what is on the servers.
	Provisioner *provisioner.Provisioner
	// Findings returns the findings and the time of the last examination; zero before the first.
	Findings func() ([]doctor.Finding, time.Time)
	// AnswerTime bounds each wait for a server, and the wait for a slot before; 0 means DefaultAnswerTime.
	AnswerTime time.Duration
	Logger     *slog.Logger
}

// Dashboard is a http.Handler of every path for which Serves returns true. Close it when the broker stops.
type Dashboard struct {
	Config
	handler     http.Handler
	inspections *inspections
	streams     streams
	stopping    context.Context
	stop        context.CancelFunc
}

// New returns a dashboard. It sends no queries until somebody opens a page.
func New(cfg Config) *Dashboard {
	cfg.AnswerTime = cmp.Or(cfg.AnswerTime, DefaultAnswerTime)
	d := &Dashboard{Config: cfg}
	inspect := func(ctx context.Context, i store.Instance, accounts []string) (steps.Inspection, error) {
		return d.Provisioner.Inspect(ctx, i, accounts)
	}
	d.inspections = newInspections(inspect, cfg.AnswerTime)
	d.stopping, d.stop = context.WithCancel(context.Background())
	d.handler = d.routes()
	return d
}

// Close ends the event streams, which would otherwise delay the broker's stop.
func (d *Dashboard) Close() { d.stop() }

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// InstancePath is the path of an instance's page, for any id.
func InstancePath(id string) string { return signin.Root + "instances/" + url.PathEscape(id) }

// Package dashboard serves the pages behind dashboard_url: to developers that of each service instance, to operators an
// overview of everything. The server writes whole pages; a little JavaScript keeps one that is open up to date.
package dashboard

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"mysql-broker/broker/signin"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Config is what the pages are made of.
type Config struct {
	Store  *store.Store
	SignIn *signin.SignIn
	Plans  plan.Set
	Shared *shared.Servers
	// Inspect is provisioner.Provisioner.Inspect.
	Inspect func(ctx context.Context, i store.Instance, accounts []string) (provisioner.Inspection, error)
	// Findings returns what the last examination found, and when; zero before the first.
	Findings func() ([]doctor.Finding, time.Time)
	// Storage is provisioner.Provisioner.Storage.
	Storage func(ctx context.Context, i store.Instance) (s provisioner.Storage, found bool, err error)
	Logger  *slog.Logger
}

// Dashboard is a http.Handler of every path that Serves names. Close it when the broker stops.
type Dashboard struct {
	Config
	handler     http.Handler
	inspections *inspections
	hub         *hub
}

// New returns a dashboard. It asks nobody anything until somebody looks at a page.
func New(cfg Config) *Dashboard {
	d := &Dashboard{Config: cfg}
	d.inspections = newInspections(cfg.Inspect)
	d.hub = newHub(cfg.Store.Activities, cfg.Logger)
	d.handler = d.routes()
	return d
}

// Close ends the streams of events, which would else keep the broker from stopping.
func (d *Dashboard) Close() { d.hub.close() }

// ServeHTTP implements http.Handler.
func (d *Dashboard) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// InstancePath is the path of an instance's page. No id leads elsewhere, whatever it holds.
func InstancePath(id string) string { return signin.Root + "instances/" + url.PathEscape(id) }

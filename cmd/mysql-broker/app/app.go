// Package app puts the broker together from its configuration and runs it.
package app

import (
	"context"
	"log/slog"
	"net"
	"net/url"

	"github.com/prometheus/client_golang/prometheus"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mysql-broker/broker/catalog"
	"mysql-broker/broker/dashboard"
	"mysql-broker/broker/signin"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// App is a broker that listens. Make one with Start, end it with Close.
type App struct {
	cfg      config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	failed   chan error
	endings  []ending // of the components that were started, in that order

	// What components leave for later ones. Their comments say when it is nil.
	catalog      *catalog.Catalog // what is offered
	traces       *sdk.TracerProvider
	tracer       trace.Tracer // nil where traces are not sent
	store        *store.Store
	lockKey      []byte
	shared       *shared.Servers
	fleet        *fleet.Fleet // the shared servers and the launchers
	listener     net.Listener
	external     *url.URL       // where browsers find the broker; nil where nobody can sign in to the dashboard
	signIn       *signin.SignIn // the same
	provisioner  *provisioner.Provisioner
	examinations *examinations
	dashboard    *dashboard.Dashboard // nil where nobody can sign in
}

// components are the parts of a broker in the order in which they start. They stop in the reverse order, so that each
// can rely on those above it.
func (a *App) components() []component {
	return []component{
		{"traces", a.startTraces},
		{"profiles", a.startProfiles},
		{"store", a.openStore},
		{"shared servers", a.openShared},
		{"launchers", a.openLaunchers},
		{"high-water marks", a.startMarks}, // before anything else is done on a server
		{"listener", a.listen},
		{"sign-in", a.prepareSignIn},
		{"operations", a.startOperations},
		{"examinations", a.startExaminations},
		{"dashboard", a.startDashboard},
		{"quotas", a.startQuotas},
		{"removal of old tasks", a.startRemoval},
		{"HTTP server", a.serve},
	}
}

// Start migrates the schema, connects to everything and listens, to sell what is in c. What it started is stopped
// again if it fails.
func Start(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger) (*App, error) {
	a := &App{cfg: cfg, log: log, registry: prometheus.NewRegistry(), failed: make(chan error, 1), catalog: c}
	for _, part := range a.components() {
		end, err := part.start(ctx)
		end.name = part.name
		a.endings = append(a.endings, end)
		if err != nil {
			a.Close()
			return nil, err
		}
	}
	a.log.Info("ready", "address", a.listener.Addr().String())
	return a, nil
}

// Port is where the broker listens.
func (a *App) Port() int { return a.listener.Addr().(*net.TCPAddr).Port }

// Launchers are where dedicated servers run.
func (a *App) Launchers() []fleet.Launcher { return a.fleet.Launchers() }

// Failed yields an error if the broker can serve no longer.
func (a *App) Failed() <-chan error { return a.failed }

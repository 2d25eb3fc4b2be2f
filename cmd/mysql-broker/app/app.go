// Package app builds the broker from its configuration and runs it.
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
	"mysql-broker/provisioner/credhub"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/memory"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// App is a running broker. Start creates it, Close stops it.
type App struct {
	cfg      config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	failed   chan error
	endings  []ending // of the started components, in the order of their starts

	// Fields that components set for later ones. The comments say when a field is nil.
	catalog      *catalog.Catalog // the offered catalog
	traces       *sdk.TracerProvider
	tracer       trace.Tracer // nil without tracing
	store        *store.Store
	lockKey      []byte
	shared       *shared.Servers
	fleet        *fleet.Fleet // the shared servers and the launchers
	listener     net.Listener
	external     *url.URL        // the broker's URL for browsers; nil without a sign-in
	signIn       *signin.SignIn  // the same
	credHub      *credhub.Client // nil if credentials are not stored in CredHub
	memory       *memory.Budget  // nil without a limit
	provisioner  *provisioner.Provisioner
	examinations *examinations
	objects      *objectStore         // nil without an object store
	dashboard    *dashboard.Dashboard // nil without a sign-in
}

// components are the parts of a broker in the order of their starts. They stop in the reverse order, so that each can
// rely on those before it.
func (a *App) components() []component {
	return []component{
		{"traces", a.startTraces},
		{"profiles", a.startProfiles},
		{"store", a.openStore},
		{"shared servers", a.openShared},
		{"launchers", a.openLaunchers},
		{"high-water marks", a.startMarks}, // before any other work on a server
		{"listener", a.listen},
		{"sign-in", a.prepareSignIn},
		{"operations", a.startOperations},
		{"expiry", a.startExpiry},
		{"CredHub", a.startCredHub},
		{"examinations", a.startExaminations},
		{"dashboard", a.startDashboard},
		{"quotas", a.startQuotas},
		{"object store", a.startProbes},
		{"binary logs", a.startArchive},
		{"HTTP server", a.serve},
	}
}

// Start migrates the schema, connects to all servers and listens, to offer the plans in c. If it fails, it stops what
// it has started.
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

// Port is the TCP port of the broker.
func (a *App) Port() int { return a.listener.Addr().(*net.TCPAddr).Port }

// Launchers are where dedicated servers run.
func (a *App) Launchers() []fleet.Launcher { return a.fleet.Launchers() }

// Failed receives an error when the broker can no longer serve.
func (a *App) Failed() <-chan error { return a.failed }

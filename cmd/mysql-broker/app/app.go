// Package app puts the broker together from its configuration and runs it.
package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"mysql-broker/broker"
	"mysql-broker/broker/catalog"
	"mysql-broker/broker/dashboard"
	"mysql-broker/broker/httpapi"
	"mysql-broker/broker/signin"
	"mysql-broker/cmd/mysql-broker/config"
	"mysql-broker/cmd/mysql-broker/tracing"
	"mysql-broker/provisioner"
	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/doctor"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/launcher/process"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/periodic"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/quota"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

const (
	keepTasks  = 30 * 24 * time.Hour // Cloud Controller may ask about an operation for 7 days
	forgetEach = time.Hour
)

// App is a broker that listens. Make one with Start, end it with Close.
type App struct {
	log         *slog.Logger
	store       *store.Store
	shared      *shared.Servers
	launcher    *process.Launcher  // nil where dedicated plans are not offered
	redoFull    prometheus.Counter // nil without launcher
	provisioner *provisioner.Provisioner
	external    *url.URL       // where browsers find the broker; nil where nobody can sign in to a dashboard
	signIn      *signin.SignIn // the same
	server      *http.Server
	listener    net.Listener
	failed      chan error
	forgetting  context.CancelFunc
	marks       *mark.Keeper
	examiner    *examiner
	quotas      *quota.Guard
	dashboard   *dashboard.Dashboard // nil where nobody could sign in
	watching    context.CancelFunc
	profiles    *http.Server        // nil where they are not served
	traces      *sdk.TracerProvider // nil where there are none
}

// Start migrates the schema, connects to everything and listens, to sell what is in c. What it started is stopped
// again if it fails.
func Start(ctx context.Context, cfg config.Config, c *catalog.Catalog, log *slog.Logger) (_ *App, err error) {
	a := &App{log: log, failed: make(chan error, 1), forgetting: func() {}, watching: func() {}}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if cfg.Pprof != "" {
		if a.profiles, err = serveProfiles(cfg.Pprof, log); err != nil {
			return nil, err
		}
	}
	if _, err := store.Migrate(ctx, cfg.PostgresURL); err != nil {
		return nil, err
	}
	var tracer trace.Tracer
	var traced []store.Option
	if cfg.Tracing {
		if a.traces, err = tracing.Start(ctx, cfg.Traces, log); err != nil {
			return nil, err
		}
		tracer = a.traces.Tracer("mysql-broker")
		traced = append(traced, store.WithTracer(otelpgx.NewTracer(otelpgx.WithTracerProvider(a.traces))))
	}
	if a.store, err = store.Open(ctx, cfg.PostgresURL, cfg.Keys, traced...); err != nil {
		return nil, err
	}
	if err := a.store.AdoptKeyset(ctx); err != nil {
		return nil, err
	}
	fenceKey, err := a.store.FenceKey(ctx)
	if err != nil {
		return nil, err
	}
	if a.shared, err = shared.Open(cfg.Shared, fenceKey); err != nil {
		return nil, err
	}
	watching, cancel := context.WithCancel(ctx) // #nosec G118 -- Close calls it
	a.watching = cancel
	a.shared.Watch(watching, log)
	servers, err := a.startLauncher(cfg.Launcher, fenceKey)
	if err != nil {
		return nil, err
	}
	if a.marks, err = mark.Start(ctx, mark.Config{Store: a.store, Shared: a.shared, Dedicated: servers,
		Logger: log}); err != nil {
		return nil, err
	}
	if servers == nil {
		c = c.Without(plan.Dedicated)
		log.Warn("dedicated plans are not offered: no launcher is configured")
	}
	if len(cfg.Shared) == 0 {
		c = c.Without(plan.Shared)
		log.Warn("shared plans are not offered: no shared server is configured")
	}
	address := net.JoinHostPort(cfg.Bind, strconv.Itoa(cfg.Port))
	if a.listener, err = net.Listen("tcp", address); err != nil {
		return nil, fmt.Errorf("cannot listen on %s; set ADDRESS or PORT to another one: %w", address, err)
	}
	a.signIn, c = a.newSignIn(cfg, c)
	registry := prometheus.NewRegistry()
	metrics := newMetrics(registry, c.Plans())
	if a.redoFull != nil {
		registry.MustRegister(a.redoFull)
	}
	a.provisioner = provisioner.New(provisioner.Config{Store: a.store, Plans: c.Plans(), Shared: a.shared,
		Dedicated: servers, Logger: log, OnFull: metrics.full.Inc, QuotasOff: cfg.Quota.Interval == 0,
		Tasks: task.Config{Tracer: tracer, OnEnd: metrics.taskEnded, OnRetry: metrics.taskRetried,
			OnRunOut: metrics.ranOut.Inc}})
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newStateCollector(a.store, a.shared, c.Plans(), log))
	a.examiner = startExaminer(doctor.New(doctor.Config{Store: a.store, Plans: c.Plans(), Shared: a.shared,
		Dedicated: servers}), registry, log)
	a.startDashboard(c.Plans())
	api, err := httpapi.New(broker.New(c, a.provisioner, a.dashboardURL, cfg.CATrusted), httpapi.Config{Logger: log,
		Registerer: registry, Tracer: tracer,
		Proxies: cfg.Proxies, Credentials: credentials(cfg)})
	if err != nil {
		return nil, err
	}
	var cert *certificate
	if cfg.TLS != (config.TLS{}) {
		if cert, err = newCertificate(cfg.TLS, log, registry); err != nil {
			return nil, fmt.Errorf("HTTPS: %w", err)
		}
	}
	a.quotas = quota.Start(quota.Config{Store: a.store, Plans: c.Plans(), Shared: a.shared, Dedicated: servers,
		Logger: log, Interval: cfg.Quota.Interval})
	if cfg.Quota.Interval > 0 {
		registry.MustRegister(newQuotaCollector(a.store, a.shared, servers != nil, cfg.Quota.Interval, c.Plans(), log))
	}
	a.serve(routes(api, registry, readinessOf(a.store, a.shared), a.dashboard), cert)
	return a, nil
}

func credentials(cfg config.Config) []httpapi.Credential {
	accepted := []httpapi.Credential{{Username: cfg.Username, Password: cfg.Password}}
	if cfg.PreviousPassword != "" {
		accepted = append(accepted, httpapi.Credential{Username: cfg.Username, Password: cfg.PreviousPassword})
	}
	return accepted
}

// startLauncher returns nil servers where no launcher is configured.
func (a *App) startLauncher(cfg config.Launcher, fenceKey []byte) (*dedicated.Servers, error) {
	if cfg.Kind == "" {
		return nil, nil
	}
	a.log.Info("launcher", "kind", cfg.Kind, "flavour", cfg.Binary.Flavour, "version", cfg.Binary.Version,
		"dir", cfg.Dir)
	a.redoFull = prometheus.NewCounter(prometheus.CounterOpts{Name: "mysql_broker_dedicated_redo_log_full_total",
		Help: "Redo logs of dedicated servers that were full, kept statements waiting, and were made larger by this " +
			"process."})
	with := launcherConfig(cfg, a.log)
	with.Exec, with.OnRedoFull, with.Authority = a.execOnServer, a.redoFull.Inc, a.authority
	var err error
	if a.launcher, err = process.New(with); err != nil {
		return nil, fmt.Errorf("launcher: %w", err)
	}
	return dedicated.New(a.launcher, fenceKey), nil
}

// execOnServer is for process.Config.
func (a *App) execOnServer(ctx context.Context, id string, e launcher.Endpoint, statement string) error {
	i, err := a.store.InstanceOfServer(ctx, id)
	if err != nil {
		return fmt.Errorf("read the instance of the server %s: %w", id, err)
	}
	return provisioner.WithAdminPassword(ctx, a.store, i, func(password string) error {
		return dedicated.Exec(ctx, id, e, password, statement)
	})
}

func launcherConfig(cfg config.Launcher, log *slog.Logger) process.Config {
	return process.Config{Dir: cfg.Dir, Binary: cfg.Binary, Host: cfg.Host, BindAddress: cfg.Bind,
		PortMin: cfg.PortMin, PortMax: cfg.PortMax, LaunchTimeout: cfg.LaunchTimeout, Spares: cfg.Spares,
		Logger: log}
}

func (a *App) serve(handler http.Handler, cert *certificate) {
	a.server = newServer(handler, a.log)
	ctx, cancel := context.WithCancel(context.Background()) // #nosec G118 -- Close calls it
	a.forgetting = cancel
	go periodic.Run(ctx, periodic.Schedule{Every: forgetEach},
		&periodic.Status{What: "deleting old tasks and absences", Log: a.log}, a.forget)
	listener := a.listener
	if cert != nil {
		go cert.follow(ctx)
		listener = tls.NewListener(listener, cert.config())
	}
	go func() {
		if err := a.server.Serve(jsonListener{listener, a.log}); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- err
		}
	}()
	a.log.Info("ready", "address", a.listener.Addr().String())
}

// Port is where the broker listens.
func (a *App) Port() int { return a.listener.Addr().(*net.TCPAddr).Port }

// Launcher is where dedicated servers run, or nil.
func (a *App) Launcher() *process.Launcher { return a.launcher }

// Failed yields an error if the broker can serve no longer.
func (a *App) Failed() <-chan error { return a.failed }

// forget deletes the tasks that no platform asks about any more, and what no request can be older than.
func (a *App) forget(ctx context.Context) error {
	n, err := a.forgetTasks(ctx)
	if n > 0 {
		a.log.Info("deleted old tasks", "count", n)
	}
	_, forgetting := a.store.ForgetAbsences(ctx)
	return errors.Join(err, forgetting)
}

// forgetTasks deletes none of a PostgreSQL that is held: it is not known yet what has come of them.
func (a *App) forgetTasks(ctx context.Context) (int64, error) {
	held, err := a.store.Hold(ctx)
	if err != nil || held != nil {
		return 0, err
	}
	return a.store.DeleteFinishedTasks(ctx, keepTasks)
}

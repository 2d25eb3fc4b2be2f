package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"mysql-broker/broker"
	"mysql-broker/broker/httpapi"
	"mysql-broker/cmd/mysql-broker/config"
)

// listen opens the port before any task starts. It serves nothing yet.
func (a *App) listen(context.Context) (end ending, err error) {
	if a.listener, err = listenOn(a.cfg); err != nil {
		return end, err
	}
	return ending{stop: func() { a.listener.Close() }}, nil
}

// serve serves requests. When the broker stops, running requests can finish, and new ones are refused.
func (a *App) serve(context.Context) (end ending, err error) {
	a.registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	api, err := httpapi.New(broker.New(a.catalog, a.provisioner, a.dashboardURL, a.cfg.CATrusted), httpapi.Config{
		Logger: a.log, Registerer: a.registry, Tracer: a.tracer, Proxies: a.cfg.Proxies, Credentials: credentials(a.cfg)})
	if err != nil {
		return end, err
	}
	listener, follow := a.listener, func(context.Context) {}
	if a.cfg.TLS != (config.TLS{}) {
		certificate, err := newKeyPair(a.cfg.TLS, a.log, a.registry)
		if err != nil {
			return end, fmt.Errorf("HTTPS: %w", err)
		}
		listener, follow = tls.NewListener(listener, certificate.config()), certificate.follow
	}
	ready := readinessOf(a.store, a.shared, a.objects, a.cfg.AnswerTime)
	server := newServer(routes(api, a.registry, ready, a.dashboard), a.log)
	following := background(follow)
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- err
		}
	}()
	return ending{leave: following.leave, stop: func() {
		a.drain(server)
		following.stop()
	}}, nil
}

func (a *App) drain(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		a.log.Warn("requests were still running after the drain time", "error", err)
		server.Close()
	}
}

func credentials(cfg config.Config) []httpapi.Credential {
	accepted := []httpapi.Credential{{Username: cfg.Username, Password: cfg.Password}}
	if cfg.PreviousPassword != "" {
		accepted = append(accepted, httpapi.Credential{Username: cfg.Username, Password: cfg.PreviousPassword})
	}
	return accepted
}

// maxHeaderBytes limits the headers of a request. net/http's default, 1 MiB, is for browsers with their cookies.
const maxHeaderBytes = 64 << 10

// newServer returns a server that no client can block or fill: it disconnects slow clients, and a connection needs
// little memory. Only the kernel limits the number of connections, through the limit on open files. Connections end by
// themselves, and with a limit of our own idle ones could block the platform.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	// Platforms use HTTP/1.1, for which the timeouts apply to each request.
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Server{
		Handler:           handler,
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       30 * time.Second,
		WriteTimeout:      70 * time.Second, // platforms give up after 60 s
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

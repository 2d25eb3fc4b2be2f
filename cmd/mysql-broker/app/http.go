package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"mysql-broker/broker"
	"mysql-broker/broker/httpapi"
	"mysql-broker/cmd/mysql-broker/config"
)

// listen takes the port before tasks are begun. Nothing is answered yet.
func (a *App) listen(context.Context) (end ending, err error) {
	address := net.JoinHostPort(a.cfg.Bind, strconv.Itoa(a.cfg.Port))
	if a.listener, err = net.Listen("tcp", address); err != nil {
		return end, fmt.Errorf("cannot listen on %s; set ADDRESS or PORT to another one: %w", address, err)
	}
	return ending{stop: func() { a.listener.Close() }}, nil
}

// serve answers requests. When the broker ends, those under way may finish, and no more are taken.
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
	server := newServer(routes(api, a.registry, readinessOf(a.store, a.shared), a.dashboard), a.log)
	following := background(follow)
	go func() {
		if err := server.Serve(jsonListener{listener, a.log}); !errors.Is(err, http.ErrServerClosed) {
			a.failed <- err
		}
	}()
	return ending{leave: following.leave, stop: func() {
		a.drain(server)
		following.stop()
	}}, nil
}

// drain lets requests finish and takes no more.
func (a *App) drain(server *http.Server) {
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		a.log.Warn("requests were still under way after the drain time", "error", err)
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

// maxHeaderBytes is how long the headers of a request may be. net/http's own limit, 1 MiB, is for browsers with their
// cookies.
const maxHeaderBytes = 64 << 10

// newServer returns a server that no client can keep busy or fill: whoever sends too slowly is cut off, and one
// connection holds little memory. The number of connections is the kernel's to limit, by that of open files: they end
// by themselves, and a limit of our own would let idle ones shut the platform out.
func newServer(handler http.Handler, log *slog.Logger) *http.Server {
	// Platforms speak HTTP/1.1, whose requests the timeouts bound one by one.
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
		ConnContext:       httpapi.WithConn,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
}

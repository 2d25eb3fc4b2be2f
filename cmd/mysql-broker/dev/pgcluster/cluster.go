// Package pgcluster runs a private PostgreSQL cluster for development and tests.
//
// All files of a cluster are in one directory: data/ (the data directory), password (of the superuser postgres),
// postgres.log and lock. It listens only on 127.0.0.1, on no Unix socket, and requires the password. Linux only.
package pgcluster

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"time"
)

// startTimeout limits Start if its context does not. Start includes creating the cluster and crash recovery, which take
// long on a busy machine.
const startTimeout = 5 * time.Minute

// Config has the location and settings of a cluster.
type Config struct {
	Dir     string       // created if it does not exist; the user nobody must be able to enter it if the caller is root
	Port    int          // TCP port; 0 picks a free one, another at each start
	Durable bool         // false is for tests: faster, but a power failure may lose everything
	Logger  *slog.Logger // nil logs nothing
}

// Cluster is a started PostgreSQL server.
type Cluster struct {
	home     *home
	server   *server
	password string
	port     int
	log      *slog.Logger
}

// Start returns when the cluster accepts connections. It creates a missing cluster. It fails if a living process has
// started the same cluster; the server of a process that has died ends by itself, and Start waits for that. The context
// limits the start, not the server's life.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	h, err := openHome(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("PostgreSQL cluster in %s: %w", cfg.Dir, err)
	}
	c := &Cluster{home: h, port: cfg.Port, log: cfg.Logger}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if err := c.start(ctx, cfg.Durable); err != nil {
		h.close()
		return nil, fmt.Errorf("PostgreSQL cluster in %s: %w", cfg.Dir, err)
	}
	return c, nil
}

func (c *Cluster) start(ctx context.Context, durable bool) (err error) {
	if c.password, err = c.home.password(); err != nil {
		return err
	}
	if err := c.home.initialise(ctx, durable); err != nil {
		return err
	}
	if c.port == 0 {
		if c.port, err = freePort(ctx); err != nil {
			return err
		}
	}
	if c.server, err = startServer(ctx, c.home, c.URL(), c.port, durable); err != nil {
		return err
	}
	c.log.Info("PostgreSQL is ready", "port", c.port, "pid", c.server.cmd.Process.Pid)
	return nil
}

// URL is the connection URL of the superuser, its password included, for the database postgres.
func (c *Cluster) URL() string {
	u := url.URL{
		Scheme:   "postgres",
		User:     url.UserPassword(superuser, c.password),
		Host:     net.JoinHostPort("127.0.0.1", strconv.Itoa(c.port)),
		Path:     "/postgres",
		RawQuery: "sslmode=disable",
	}
	return u.String()
}

// Done is closed when the server has ended, for any reason.
func (c *Cluster) Done() <-chan struct{} { return c.server.done }

// Stop disconnects every client and returns when the server has ended and its data is safe. If the context ends first,
// Stop ends the server at once, which recovers at its next start, and returns the context's error. Stopping a stopped
// cluster does nothing.
func (c *Cluster) Stop(ctx context.Context) error {
	defer c.home.close()
	return c.server.stop(ctx)
}

func freePort(ctx context.Context) (int, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

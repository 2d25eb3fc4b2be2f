package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// askInterval is how often each server is asked whether it is the primary.
	askInterval = 500 * time.Millisecond
	// askTime is how long a server may take to answer. One whose host is gone does not even refuse the connection.
	askTime = 2 * time.Second
)

// hosts are the servers of a URL that names several. Each is asked again and again, on its own connection, so that a
// server that does not answer delays nothing, and a promotion is noticed even if the old primary still answers.
type hosts struct {
	cancel context.CancelFunc
	asking sync.WaitGroup

	mu      sync.Mutex
	all     []host
	primary int           // index in all, or -1
	changed chan struct{} // closed and replaced whenever primary changes
	moved   func()        // called when primary changes from one server to another
}

type host struct {
	config  *pgx.ConnConfig
	asked   bool
	answers bool     // it has answered the latest question
	at      position // in its latest answer; a standby, and a server that never answered, has timeline 0
}

// watchHosts starts to watch the servers of a configuration, and calls moved when another one has become the primary.
// It returns nil if there is only one. Otherwise the caller must close the result.
func watchHosts(cfg *pgx.ConnConfig, moved func()) *hosts {
	h := &hosts{primary: -1, changed: make(chan struct{}), moved: moved}
	for _, one := range eachHost(cfg) {
		h.all = append(h.all, host{config: one})
	}
	if len(h.all) < 2 {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel = cancel
	for n := range h.all {
		h.asking.Go(func() { h.watch(ctx, n) })
	}
	return h
}

// eachHost splits a configuration into one for each server. pgx lists a server twice if it may be reached with TLS and
// without; these stay together.
func eachHost(cfg *pgx.ConnConfig) (each []*pgx.ConnConfig) {
	ways := append([]*pgconn.FallbackConfig{{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig}},
		cfg.Fallbacks...)
	for _, way := range ways {
		n := slices.IndexFunc(each, func(c *pgx.ConnConfig) bool { return c.Host == way.Host && c.Port == way.Port })
		if n >= 0 {
			each[n].Fallbacks = append(each[n].Fallbacks, way)
			continue
		}
		one := cfg.Copy()
		one.Host, one.Port, one.TLSConfig, one.Fallbacks = way.Host, way.Port, way.TLSConfig, nil
		one.ValidateConnect = nil // the timeline says more than target_session_attrs
		each = append(each, one)
	}
	return each
}

func (h *hosts) close() {
	h.cancel()
	h.asking.Wait()
}

func (h *hosts) watch(ctx context.Context, n int) {
	var conn *pgx.Conn
	tick := time.NewTicker(askInterval)
	defer tick.Stop()
	for ctx.Err() == nil {
		var at position
		var err error
		if conn, at, err = ask(ctx, h.all[n].config, conn); ctx.Err() == nil {
			h.report(n, at, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	if conn != nil {
		_ = conn.Close(context.Background()) // it has only read
	}
}

// ask opens a connection if there is none. After an error, it closes the connection and returns nil.
func ask(ctx context.Context, cfg *pgx.ConnConfig, conn *pgx.Conn) (*pgx.Conn, position, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var err error
	if conn == nil {
		if conn, err = pgx.ConnectConfig(ctx, cfg); err != nil {
			return nil, position{}, err
		}
	}
	at, err := readPosition(ctx, conn)
	if err != nil {
		_ = conn.Close(ctx) // it may hang
		return nil, position{}, err
	}
	return conn, at, nil
}

// report records what the server n has answered, and finds out which server is the primary.
func (h *hosts) report(n int, at position, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := &h.all[n]
	if one.asked, one.answers = true, err == nil; err == nil {
		one.at = at
	}
	before := h.primary
	h.choose()
	if h.primary == before {
		return
	}
	close(h.changed)
	h.changed = make(chan struct{})
	if before >= 0 {
		h.moved()
	}
}

// choose makes the server with the highest timeline the primary, even if it does not answer any more: an older one must
// not be used again. Of several on the same timeline, such as proxies, it prefers one that answers, and the present one
// to others. The first time, it waits until all servers have answered, or failed to.
func (h *hosts) choose() {
	if h.primary < 0 && slices.ContainsFunc(h.all, func(one host) bool { return !one.asked }) {
		return
	}
	best := h.primary
	for n, one := range h.all {
		if one.at.Timeline == 0 || best >= 0 && one.at.System != h.all[best].at.System {
			continue
		}
		if best < 0 || one.at.Timeline > h.all[best].at.Timeline ||
			one.at.Timeline == h.all[best].at.Timeline && one.answers && !h.all[best].answers {
			best = n
		}
	}
	h.primary = best
}

// config waits until it is known which server is the primary, and returns how to connect to it.
func (h *hosts) config(ctx context.Context) (*pgx.ConnConfig, error) {
	for {
		h.mu.Lock()
		primary, changed := h.primary, h.changed
		h.mu.Unlock()
		if primary >= 0 {
			return h.all[primary].config, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errNoPrimary, ctx.Err())
		}
	}
}

// toPrimary makes a new connection of a pool go to the primary. It is for pgxpool.Config.BeforeConnect.
func (h *hosts) toPrimary(ctx context.Context, cfg *pgx.ConnConfig) error {
	to, err := h.config(ctx)
	if err != nil {
		return err
	}
	cfg.Host, cfg.Port, cfg.TLSConfig, cfg.Fallbacks = to.Host, to.Port, to.TLSConfig, to.Fallbacks
	cfg.ValidateConnect = nil
	return nil
}

// primaryOf returns how to connect to the server of a configuration that accepts writes.
func primaryOf(ctx context.Context, cfg *pgx.ConnConfig) (*pgx.ConnConfig, error) {
	h := watchHosts(cfg, func() {})
	if h == nil {
		return cfg, nil
	}
	defer h.close()
	ctx, cancel := context.WithTimeout(ctx, 2*statementTime)
	defer cancel()
	return h.config(ctx)
}

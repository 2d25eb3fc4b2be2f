package store

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// channel is where PostgreSQL announces tasks without a lease: see migrations/001_schema.sql.
const channel = "mysql_broker"

const (
	// probeInterval is how often the connection that listens is probed. One may be dead without an error, and a pooler
	// that gives each transaction another connection announces nothing.
	probeInterval = 30 * time.Second
	probeTime     = 5 * time.Second
	// listenPause is the pause after a connection was lost. It doubles up to maxListenPause.
	listenPause    = time.Second
	maxListenPause = time.Minute
)

// listener has the one connection on which this process hears what PostgreSQL announces.
type listener struct {
	db   *database
	pool *pgxpool.Pool // of that connection

	hears atomic.Bool // the last probe arrived

	mu      sync.Mutex
	call    []func()
	cancel  context.CancelFunc // ends run; nil before it begins
	again   context.CancelFunc // ends listen, so that run begins again
	running sync.WaitGroup
}

// OnAnnounced makes fn be called when a task without a lease was recorded, or a lease was released, by whatever
// process; and whenever Hears changes, because something may have been missed. fn must not block.
func (s *Store) OnAnnounced(fn func()) {
	l := &s.listener
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call = append(l.call, fn)
	if l.cancel == nil {
		var ctx context.Context
		ctx, l.cancel = context.WithCancel(context.Background())
		l.running.Go(func() { l.run(ctx) })
	}
}

// Hears reports whether announcements arrive. If not, callers must look themselves, often.
func (s *Store) Hears() bool { return s.listener.hears.Load() }

func (l *listener) close() {
	l.mu.Lock()
	if l.cancel != nil {
		l.cancel()
	}
	l.mu.Unlock()
	l.running.Wait()
}

// reconnect has the listener open another connection, because another server is the primary.
func (l *listener) reconnect() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.again != nil {
		l.again()
	}
}

// run listens until ctx ends, on one connection after the other.
func (l *listener) run(ctx context.Context) {
	for pause := listenPause; ctx.Err() == nil; {
		listening, again := context.WithCancel(ctx)
		l.mu.Lock()
		l.again = again
		l.mu.Unlock()
		heard := l.listen(listening)
		again()
		l.set(false)
		if pause = min(2*pause, maxListenPause); heard {
			pause = listenPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// listen hears until the connection is lost or a probe does not arrive. It reports whether any did.
func (l *listener) listen(ctx context.Context) (heard bool) {
	limited, cancel := context.WithTimeout(ctx, statementTime)
	defer cancel()
	conn, err := l.pool.Acquire(limited)
	if err != nil {
		return false
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Conn().Close(closing) // it only listens, and must not do so in the pool
		conn.Release()
	}()
	if _, err := conn.Exec(limited, "LISTEN "+channel); err != nil {
		return false
	}
	for {
		if err := l.probe(ctx, conn.Conn()); err != nil {
			return heard
		}
		heard = true
		l.set(true)
		if err := l.hear(ctx, conn.Conn(), probeInterval, ""); !errors.Is(err, context.DeadlineExceeded) {
			return heard
		}
	}
}

// probe announces something by another connection, and waits until it arrives.
func (l *listener) probe(ctx context.Context, conn *pgx.Conn) error {
	token := rand.Text()
	if err := l.db.exec(ctx, "SELECT pg_notify($1, $2)", channel, token); err != nil {
		return err
	}
	return l.hear(ctx, conn, probeTime, token)
}

// hear passes on what is announced, until the time is over or the token of a probe arrives.
func (l *listener) hear(ctx context.Context, conn *pgx.Conn, limit time.Duration, token string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		case n.Payload == "":
			l.pass()
		case n.Payload == token:
			return nil
		}
	}
}

// set records whether announcements arrive, and passes a change on.
func (l *listener) set(hears bool) {
	if l.hears.Swap(hears) != hears {
		l.pass()
	}
}

func (l *listener) pass() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, fn := range l.call {
		fn()
	}
}

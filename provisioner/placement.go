package provisioner

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// place finds a shared server for an instance. Servers that are full, drained or cannot be used are passed over.
func (p *Provisioner) place(ctx context.Context, i store.Instance, q ProvisionRequest, async bool) (Result, error) {
	var unusable error
	var refused *mysqladmin.CharsetError
	for _, maxAge := range []time.Duration{loadsAge, 0} { // a place may have become free since
		loads, err := p.loads.read(ctx, p.store, p.fleet.Shared.Names(), maxAge)
		if err != nil {
			return Result{}, fmt.Errorf("read how full the servers are: %w", err)
		}
		unusable, refused = nil, nil
		for _, server := range p.fleet.Shared.Candidates(loads) {
			err := server.Check(ctx)
			if err == nil {
				err = takes(ctx, server, q.Parameters)
			}
			if charset, ok := errors.AsType[*mysqladmin.CharsetError](err); ok {
				refused = charset // another server may be of the flavour that has it
				continue
			}
			if err != nil {
				p.log.Warn("shared server passed over", "server", server.Name(), "error", err)
				unusable = err
				continue
			}
			i.Location = store.SharedLocation(server.Name())
			result, load, err := p.record(ctx, i, q.told, server.MaxDatabases, async)
			if errors.Is(err, store.ErrServerFull) {
				continue
			}
			if errors.Is(err, errUnreached) {
				server.Doubt()
				p.log.Warn("shared server passed over", "server", server.Name(), "error", err)
				unusable = err
				continue
			}
			if load > 0 { // it took a place
				p.loads.note(server.Name(), load)
			}
			return result, err
		}
	}
	if err := p.absent(ctx, i.ID); err != nil {
		return Result{}, err
	}
	return Result{}, p.noPlace(refused, unusable)
}

// errUnreached says that an instance was recorded on a server that does not answer, and that this was taken back.
var errUnreached = errors.New("the server does not answer")

// reached finds out whether the server that an instance was recorded on answers. It is asked while PostgreSQL writes
// the record to its disk, which costs less time than to ask before.
func (p *Provisioner) reached(ctx context.Context, i store.Instance, lock sessionLock) error {
	if lock.pending == nil {
		return nil
	}
	err := lock.pending.lock.Err()
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	server, notConfigured := p.fleet.Shared.Server(i.Location.Server) // all its sessions may be in use
	if notConfigured != nil {
		return notConfigured
	}
	return server.Ping(ctx)
}

// takeBack ends a task that has not begun, and forgets its instance.
func (p *Provisioner) takeBack(ctx context.Context, i store.Instance, t store.Task, cause error) error {
	description := "The server did not answer, and another one was tried."
	err := p.store.Finish(ctx, store.Lease{ID: t.ID, Epoch: t.Epoch}, store.Failed, description, true,
		func(tx *store.Tx) { tx.DeleteInstance(i.ID) })
	if err != nil {
		return fmt.Errorf("take the instance back: %w", errors.Join(err, cause))
	}
	return fmt.Errorf("%w: %w", errUnreached, cause)
}

// noPlace says why no shared server takes an instance.
func (p *Provisioner) noPlace(refused *mysqladmin.CharsetError, unusable error) error {
	switch {
	case refused != nil:
		return &Error{Code: Invalid, Sentence: refused.Sentence(), Err: refused}
	case unusable != nil:
		return &Error{Code: Unavailable, Err: unusable,
			Sentence: "No shared MySQL server can be used just now. Try again in a few minutes, or tell your operator."}
	}
	p.log.Error("every shared server is full or drained; add one to the configuration")
	p.onFull()
	return errFull
}

// takesTimeout bounds how long a server that does not answer can hold up a placement.
const takesTimeout = 2 * time.Second

// takes asks a server whether it has the character set and collation, if any are wanted.
func takes(ctx context.Context, server *shared.Server, q plan.InstanceParameters) error {
	if q == (plan.InstanceParameters{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, takesTimeout)
	defer cancel()
	return server.ValidateCharset(ctx, q.Charset, q.Collation)
}

// loadsAge is how old what is known of the servers' loads may be when an instance is placed.
const loadsAge = time.Second

// loads remembers how many instances each shared server holds, and which are drained. It only says which server to try
// first: that none is overfilled, and that a drained one gets none, the store sees to.
type loads struct {
	mu    sync.Mutex
	known map[string]store.ServerState // by server
	since time.Time
}

// read returns loads that are no older than maxAge, but for what was noted since.
func (l *loads) read(ctx context.Context, s *store.Store, names []string,
	maxAge time.Duration) (map[string]store.ServerState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.known == nil || now.Sub(l.since) >= maxAge {
		known, err := s.ServerStates(ctx, names)
		if err != nil {
			return nil, err
		}
		l.known, l.since = known, now
	}
	return maps.Clone(l.known), nil
}

// note records what a placement has told.
func (l *loads) note(server string, load int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	state := l.known[server]
	state.Instances = load
	l.known[server] = state
}

package steps

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"sync"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// Search is the search for a shared server for one database.
type Search struct {
	Servers    *Servers
	Plan       plan.Plan
	Parameters plan.InstanceParameters
	Takes      func(*shared.Server) error // nil, or whether a server can hold a copy: see copying.Copier.Takes
	foreign    *FlavourError              // a server is of another flavour than the source's
	failed     error                      // why the search failed
	unusable   error                      // why a server that has room cannot be used
	refused    *mysqladmin.CharsetError   // a server does not have the character set or collation
}

// Candidates yields the servers to try, the best first. Servers that are full, drained or cannot be used are left out.
// After all were refused, it reads the loads again and yields those that have room by then.
func (s *Search) Candidates(ctx context.Context) iter.Seq[*shared.Server] {
	return func(yield func(*shared.Server) bool) {
		for _, maxAge := range []time.Duration{loadsAge, 0} {
			loads, err := s.Servers.loads.read(ctx, s.Servers.Store, s.Servers.Fleet.Shared.Names(), maxAge)
			if err != nil {
				s.failed = fmt.Errorf("read how full the servers are: %w", err)
				return
			}
			s.unusable, s.refused, s.foreign = nil, nil, nil
			for _, server := range s.Servers.Fleet.Shared.Candidates(loads, s.Plan.Exclusive) {
				if s.usable(ctx, server) && !yield(server) {
					return
				}
			}
		}
	}
}

// usable reports whether a server can take the database. If not, it records why in s.
func (s *Search) usable(ctx context.Context, server *shared.Server) bool {
	err := server.Check(ctx)
	if err == nil {
		err = hasCharset(ctx, server, s.Parameters)
	}
	if err == nil && s.Takes != nil {
		err = s.Takes(server)
	}
	foreign, isForeign := errors.AsType[*FlavourError](err)
	charset, isRefused := errors.AsType[*mysqladmin.CharsetError](err)
	switch {
	case isForeign:
		s.foreign = foreign
	case isRefused:
		s.refused = charset // another server may be of the flavour that has it
	case err != nil:
		s.Servers.Log.Warn("shared server passed over", "server", server.Name(), "error", err)
		s.unusable = err
	}
	return err == nil
}

// Failure returns why no candidate took the database.
func (s *Search) Failure() error {
	switch {
	case s.failed != nil:
		return s.failed
	case s.refused != nil:
		return &engine.Error{Code: engine.Invalid, Sentence: s.refused.Sentence(), Err: s.refused}
	case s.foreign != nil && s.unusable == nil:
		return &engine.Error{Code: engine.Invalid, Err: s.foreign,
			Sentence: fmt.Sprintf("No shared MySQL server that has room can take what %s holds. %s", s.foreign.Of,
				OtherServer)}
	case s.unusable != nil:
		return &engine.Error{Code: engine.Unavailable, Err: s.unusable,
			Sentence: "No shared MySQL server can be used just now. Try again in a few minutes, or tell your operator."}
	}
	s.Servers.onFull()
	if s.Plan.Exclusive {
		s.Servers.Log.Error("every exclusive server is taken or drained; add one to the configuration",
			"plan", s.Plan.Name)
		return engine.ErrTaken
	}
	s.Servers.Log.Error("every shared server is full or drained; add one to the configuration",
		"plan", s.Plan.Name)
	return engine.ErrFull
}

// hasCharset returns a *mysqladmin.CharsetError if a server does not have the character set and collation asked for.
func hasCharset(ctx context.Context, server *shared.Server, q plan.InstanceParameters) error {
	if q.Charset == "" && q.Collation == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, server.AnswerTime)
	defer cancel()
	return server.Setup.ValidateCharset(ctx, q.Charset, q.Collation)
}

// loadsAge is how old the known loads of the servers may be when an instance is placed.
const loadsAge = time.Second

// loads caches how many instances each shared server holds, and which servers are drained. It only decides which server
// to try first. The store ensures that no server gets too many instances and that a drained one gets none.
type loads struct {
	mu    sync.Mutex
	known map[string]store.ServerState // by server
	since time.Time
}

// read returns loads that are at most maxAge old, with the changes by SetLoad since.
func (l *loads) read(ctx context.Context, s *store.Store, names []string,
	maxAge time.Duration) (map[string]store.ServerState, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); l.known == nil || now.Sub(l.since) >= maxAge {
		known, err := s.Servers.States(ctx, names)
		if err != nil {
			return nil, err
		}
		l.known, l.since = known, now
	}
	return maps.Clone(l.known), nil
}

// SetLoad records the number of instances that a shared server holds now.
func (ss *Servers) SetLoad(server string, load int) {
	ss.loads.mu.Lock()
	defer ss.loads.mu.Unlock()
	state := ss.loads.known[server]
	state.Instances = load
	ss.loads.known[server] = state
}

// FlavourError says that a server cannot hold what one of another flavour or of a later version holds.
type FlavourError struct{ Of mysqladmin.Flavour }

func (e *FlavourError) Error() string { return "cannot take what " + e.Of.String() + " holds" }

// What users do about data that a server cannot hold. A copy between the flavours would lose something.
const (
	ByDump      = "From MySQL to MariaDB, or back, load a dump of mysqldump into a new service instance instead."
	OtherServer = "Choose another plan. " + ByDump
)

// Package shared knows the shared servers: which exist, which are healthy, and where the next database goes.
package shared

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// DefaultMaxDatabases is how many databases a server takes unless its Config says otherwise.
const DefaultMaxDatabases = 1000

// DefaultAnswerTime is Config.AnswerTime unless a Config says otherwise.
const DefaultAnswerTime = 2 * time.Second

// Config describes a shared server to the broker and to applications.
type Config struct {
	Admin        mysqladmin.Config
	Host         string // as applications reach it
	Port         int
	Hosts        []string // host:port of all nodes of a cluster that applications reach themselves, else nil
	MaxDatabases int      // 0 means DefaultMaxDatabases, or 1 if the server is exclusive
	Exclusive    bool     // it takes one instance, whose plan is exclusive
	// AnswerTime bounds how long the server can delay a placement or a readiness check by not responding. 0 means
	// DefaultAnswerTime.
	AnswerTime time.Duration
}

// Server is one shared server.
type Server struct {
	*mysqladmin.Server
	Config // with its defaults

	// transport is nil until checkTransport has succeeded.
	transport atomic.Pointer[mysqladmin.Transport]

	usable     atomic.Bool // the account had all privileges, and the server its settings, at the last check
	doubted    atomic.Bool // the server did not respond the last time
	privileged time.Time   // when Watch last found all privileges
	introduced bool        // Watch has logged what the server is
	logged     string      // the problem that Watch last logged, "" for none
	advised    []string    // the settings that Watch last recommended

	recommended atomic.Pointer[[]mysqladmin.Setting] // those that were missing then; nil before

	verify   verifier // see Servers.VerifyWith
	verified atomic.Bool
}

// Servers are all shared servers of this broker.
type Servers struct {
	all []*Server // in the order of the configuration
}

// Open prepares connections to the servers without opening any. lockKey is for mysqladmin.Config. The caller closes the
// result.
func Open(configs []Config, lockKey []byte) (*Servers, error) {
	s := &Servers{}
	for _, c := range configs {
		c.Admin.SessionLockKey = lockKey
		c.AnswerTime = cmp.Or(c.AnswerTime, DefaultAnswerTime)
		if c.MaxDatabases = cmp.Or(c.MaxDatabases, DefaultMaxDatabases); c.Exclusive {
			c.MaxDatabases = 1
		}
		admin, err := mysqladmin.Open(c.Admin)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("shared server %q: %w", c.Admin.Name, err)
		}
		s.all = append(s.all, &Server{Server: admin, Config: c})
	}
	return s, nil
}

// Close closes all connections.
func (s *Servers) Close() error {
	var errs []error
	for _, server := range s.all {
		errs = append(errs, server.Close())
	}
	return errors.Join(errs...)
}

// All lists the servers in the order of the configuration.
func (s *Servers) All() []*Server { return s.all }

// Names lists the names of all servers.
func (s *Servers) Names() []string {
	names := make([]string, len(s.all))
	for i, server := range s.all {
		names[i] = server.Name()
	}
	return names
}

// Server returns the server of that name. It fails if the server was removed from the configuration while it held
// databases.
func (s *Servers) Server(name string) (*Server, error) {
	i := slices.IndexFunc(s.all, func(server *Server) bool { return server.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("shared server %q is not configured", name)
	}
	return s.all[i], nil
}

type verifier = func(ctx context.Context, server *Server, from mysqladmin.MarkReader) error

// VerifyWith sets the function that verifies each server by its mark before anything is changed there. Call it before
// the servers are used. Without it, nothing is verified.
func (s *Servers) VerifyWith(verify verifier) {
	for _, server := range s.all {
		server.verify = verify
	}
}

// VerifyAgain makes Verified check every server again.
func (s *Servers) VerifyAgain() {
	for _, server := range s.all {
		server.verified.Store(false)
	}
}

// Verified returns nil if changes are allowed on the server. If necessary, it reads the server's mark from the
// MarkReader. Once the check has succeeded, it is not repeated.
func (s *Server) Verified(ctx context.Context, from mysqladmin.MarkReader) error {
	if s.verify == nil || s.verified.Load() {
		return nil
	}
	err := s.verify(ctx, s, from)
	s.verified.Store(err == nil)
	return err
}

// Candidates lists the servers that may take one more database, in order of their fill ratio, the emptiest first: for a
// plan that is exclusive, only servers that are, and else only others. Servers that did not respond come last, because
// it takes seconds to find out that they still do not. loads is the recorded state of each.
func (s *Servers) Candidates(loads map[string]store.ServerState, exclusive bool) []*Server {
	fill := func(server *Server) float64 {
		return float64(loads[server.Name()].Instances) / float64(server.MaxDatabases)
	}
	free := slices.DeleteFunc(slices.Clone(s.all), func(server *Server) bool {
		return server.Exclusive != exclusive || fill(server) >= 1 || loads[server.Name()].Drained()
	})
	slices.SortStableFunc(free, func(a, b *Server) int { return cmp.Compare(fill(a), fill(b)) })
	slices.SortStableFunc(free, func(a, b *Server) int { return cmp.Compare(a.doubt(), b.doubt()) })
	return free
}

// Ping returns an error if the server does not respond within AnswerTime.
func (s *Server) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.AnswerTime)
	defer cancel()
	return s.Server.Ping(ctx)
}

// Connections reads the number of connections from every server that responded according to health, the result of
// Health. It leaves out a server that no longer responds.
func (s *Servers) Connections(ctx context.Context, health map[string]error) map[string]mysqladmin.Connections {
	var mu sync.Mutex
	all := make(map[string]mysqladmin.Connections, len(s.all))
	s.eachServer(func(server *Server) {
		if health[server.Name()] != nil {
			return // it would hold up the others
		}
		limited, cancel := context.WithTimeout(ctx, server.AnswerTime)
		defer cancel()
		c, err := server.Connections(limited)
		if err != nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all[server.Name()] = c
	})
	return all
}

// Health pings every server at the same time. A nil error means that the server responds.
func (s *Servers) Health(ctx context.Context) map[string]error {
	var mu sync.Mutex
	health := make(map[string]error, len(s.all))
	s.eachServer(func(server *Server) {
		err := server.Ping(ctx)
		mu.Lock()
		defer mu.Unlock()
		health[server.Name()] = err
	})
	return health
}

// Package shared knows the shared servers: which there are, which are healthy, and where the next database goes.
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

// pingTimeout bounds how long a server that does not answer can hold up a placement or a readiness check.
const pingTimeout = 2 * time.Second

// Config describes a shared server to the broker and to applications.
type Config struct {
	Admin        mysqladmin.Config
	Host         string // as applications reach it
	Port         int
	MaxDatabases int // 0 means DefaultMaxDatabases
}

// Server is one shared server.
type Server struct {
	*mysqladmin.Server
	Host          string
	Port          int
	CACertificate []byte // PEM; nil where connections are not verified
	MaxDatabases  int

	// transport is nil until Watch has asked.
	transport atomic.Pointer[mysqladmin.Transport]

	usable     atomic.Bool // the broker's account had all privileges, and the server its settings, when last looked at
	doubted    atomic.Bool // the server did not answer the last time
	privileged time.Time   // when Watch last found all privileges
	introduced bool        // Watch has logged what the server is
	told       string      // the problem that Watch last logged, "" for none
	advised    []string    // the settings that Watch last recommended

	recommended atomic.Pointer[[]mysqladmin.Setting] // those that were missing then; nil before

	verify   verifier // see Servers.VerifyWith
	verified atomic.Bool
}

// Servers are all shared servers of this broker.
type Servers struct {
	all []*Server // in the order of the configuration
}

// Open prepares connections to the servers; none is contacted yet. lockKey is for mysqladmin.Config. Close it at the
// end.
func Open(configs []Config, lockKey []byte) (*Servers, error) {
	s := &Servers{}
	for _, c := range configs {
		c.Admin.SessionLockKey = lockKey
		admin, err := mysqladmin.Open(c.Admin)
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("shared server %q: %w", c.Admin.Name, err)
		}
		s.all = append(s.all, &Server{Server: admin, Host: c.Host, Port: c.Port, CACertificate: c.Admin.CA,
			MaxDatabases: cmp.Or(c.MaxDatabases, DefaultMaxDatabases)})
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

// Server finds a server by its name. It fails for one that was taken out of the configuration while it held
// databases.
func (s *Servers) Server(name string) (*Server, error) {
	i := slices.IndexFunc(s.all, func(server *Server) bool { return server.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("shared server %q is not configured", name)
	}
	return s.all[i], nil
}

type verifier = func(ctx context.Context, server *Server, from mysqladmin.MarkReader) error

// VerifyWith has every server verified before anything is done there, by its mark. Call it before the servers are used;
// without it, there is nothing to be verified.
func (s *Servers) VerifyWith(verify verifier) {
	for _, server := range s.all {
		server.verify = verify
	}
}

// Verified finds out whether anything may be done on the server, whose mark is read from there if need be. Once it may,
// that is known without asking.
func (s *Server) Verified(ctx context.Context, from mysqladmin.MarkReader) error {
	if s.verify == nil || s.verified.Load() {
		return nil
	}
	err := s.verify(ctx, s, from)
	s.verified.Store(err == nil)
	return err
}

// Candidates lists the servers that may take one more database, the emptiest in proportion first, but those last that
// did not answer: to find out that they still do not takes seconds. loads is what is recorded of each.
func (s *Servers) Candidates(loads map[string]store.ServerState) []*Server {
	fill := func(server *Server) float64 {
		return float64(loads[server.Name()].Instances) / float64(server.MaxDatabases)
	}
	free := slices.DeleteFunc(slices.Clone(s.all), func(server *Server) bool {
		return fill(server) >= 1 || loads[server.Name()].Drained()
	})
	slices.SortStableFunc(free, func(a, b *Server) int { return cmp.Compare(fill(a), fill(b)) })
	slices.SortStableFunc(free, func(a, b *Server) int { return cmp.Compare(a.doubt(), b.doubt()) })
	return free
}

// Ping reports an error if the server does not answer soon.
func (s *Server) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.Server.Ping(ctx)
}

// Connections asks every server for its connections, but for those that did not answer according to health, which is
// what Health returned. One that does not answer any more is left out.
func (s *Servers) Connections(ctx context.Context, health map[string]error) map[string]mysqladmin.Connections {
	var mu sync.Mutex
	all := make(map[string]mysqladmin.Connections, len(s.all))
	s.eachServer(func(server *Server) {
		if health[server.Name()] != nil {
			return // it would hold up the others
		}
		limited, cancel := context.WithTimeout(ctx, pingTimeout)
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

// Health asks every server at once whether it answers. A nil error means that it does.
func (s *Servers) Health(ctx context.Context) map[string]error {
	var mu sync.Mutex
	var asked sync.WaitGroup
	health := make(map[string]error, len(s.all))
	for _, server := range s.all {
		asked.Go(func() {
			err := server.Ping(ctx)
			mu.Lock()
			defer mu.Unlock()
			health[server.Name()] = err
		})
	}
	asked.Wait()
	return health
}

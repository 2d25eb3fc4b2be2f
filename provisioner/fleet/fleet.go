// Package fleet knows all servers that hold instances' data: the shared servers that an operator registers, and the
// dedicated servers that launchers run. For a location, it opens an administrator's session, returns the address that
// applications use, and takes the session lock for a change. It also lists the servers. It hides from the rest of the
// broker how the kinds of locations differ.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// ErrNoLauncher is returned if no configured launcher runs a dedicated server.
var ErrNoLauncher = errors.New("no launcher is configured for dedicated servers")

// Config configures a fleet.
type Config struct {
	Store          *store.Store
	Shared         *shared.Servers              // nil for none
	Launchers      map[string]launcher.Launcher // by name; empty if there are no dedicated servers
	SessionLockKey []byte                       // for mysqladmin.Config
	Dial           mysqladmin.Dialer            // opens every connection to a dedicated server
}

// Fleet reaches every server. It is safe for concurrent use.
type Fleet struct {
	Shared    *shared.Servers
	store     *store.Store
	launchers map[string]Launcher
	lockKey   []byte
	dial      mysqladmin.Dialer

	verify   func(context.Context, Launcher) error // see VerifyLaunchersWith
	verified map[string]*atomic.Bool               // by the launcher's name
}

// Launcher is a launcher and the name by which locations refer to it.
type Launcher struct {
	Name string
	launcher.Launcher
}

// New returns a fleet. It opens no connections.
func New(cfg Config) *Fleet {
	if cfg.Shared == nil {
		cfg.Shared = &shared.Servers{}
	}
	f := &Fleet{Shared: cfg.Shared, store: cfg.Store, lockKey: cfg.SessionLockKey, dial: cfg.Dial,
		launchers: map[string]Launcher{}, verified: map[string]*atomic.Bool{}}
	for name, l := range cfg.Launchers {
		f.launchers[name], f.verified[name] = Launcher{name, l}, new(atomic.Bool)
	}
	return f
}

// VerifyLaunchersWith sets the function that verifies each launcher by the mark that it keeps, before anything is
// changed on its servers. Call it before the fleet is used. Without it, nothing is verified.
func (f *Fleet) VerifyLaunchersWith(verify func(context.Context, Launcher) error) { f.verify = verify }

// VerifyAgain has every server and launcher verified again before anything is changed there.
func (f *Fleet) VerifyAgain() {
	f.Shared.VerifyAgain()
	for _, verified := range f.verified {
		verified.Store(false)
	}
}

// verifyLauncher returns nil if changes are allowed on the launcher's servers. Once the check has succeeded, it is not
// repeated.
func (f *Fleet) verifyLauncher(ctx context.Context, l Launcher) error {
	if f.verify == nil || f.verified[l.Name].Load() {
		return nil
	}
	err := f.verify(ctx, l)
	f.verified[l.Name].Store(err == nil)
	return err
}

// Launchers returns the configured launchers in the order of their names.
func (f *Fleet) Launchers() []Launcher {
	all := make([]Launcher, 0, len(f.launchers))
	for _, name := range slices.Sorted(maps.Keys(f.launchers)) {
		all = append(all, f.launchers[name])
	}
	return all
}

// Launcher returns the launcher of that name or, for "", the only one.
func (f *Fleet) Launcher(name string) (Launcher, error) {
	if l, known := f.launchers[name]; known {
		return l, nil
	}
	switch all := f.Launchers(); {
	case len(all) == 0:
		return Launcher{}, ErrNoLauncher
	case name != "":
		return Launcher{}, fmt.Errorf("%w of the launcher %q", ErrNoLauncher, name)
	case len(all) > 1:
		return Launcher{}, fmt.Errorf("%w: there are several, and none is named", ErrNoLauncher)
	default:
		return all[0], nil
	}
}

// Listing lists the servers of all launchers that could list them.
type Listing struct {
	There []store.Location
	Asked map[string]error // by launcher: why it could not list them, or nil
}

// Err returns an error if a launcher could not list its servers.
func (l Listing) Err() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(l.Asked)) {
		if err := l.Asked[name]; err != nil {
			errs = append(errs, fmt.Errorf("list the dedicated servers of the launcher %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// Dedicated lists the servers of all launchers; see launcher.Launcher.List. The only error is ErrNoLauncher.
func (f *Fleet) Dedicated(ctx context.Context) (Listing, error) {
	if len(f.launchers) == 0 {
		return Listing{}, ErrNoLauncher
	}
	all := Listing{Asked: map[string]error{}}
	for _, l := range f.Launchers() {
		ids, err := l.List(ctx)
		all.Asked[l.Name] = err
		if err != nil {
			continue
		}
		for _, id := range ids {
			all.There = append(all.There, store.DedicatedLocation(l.Name, id))
		}
	}
	return all, nil
}

// AsAdmin runs fn with the broker's connections to an instance's server. It runs fn again if a dedicated server refuses
// the recorded password, which may be in the middle of a change. Connections to a dedicated server are closed when fn
// has returned.
func (f *Fleet) AsAdmin(ctx context.Context, i store.Instance, fn func(*mysqladmin.Server) error) error {
	if i.Location.Shared() {
		server, err := f.Shared.Server(i.Location.Server)
		if err != nil {
			return err
		}
		return fn(server.Server)
	}
	e, err := f.recordedEndpoint(ctx, i)
	if err != nil {
		return err
	}
	return WithAdminPassword(ctx, f.store, i, func(password string) error {
		admin, err := f.open(i.Location, e, password)
		if err != nil {
			return err
		}
		defer admin.Close()
		return fn(admin)
	})
}

// Address is how applications reach a server.
type Address struct {
	Host          string
	Port          int
	Hosts         []string // host:port of all nodes of a cluster, nil where there is one address
	CACertificate []byte   // PEM; nil where connections are not encrypted
}

// Address returns how applications reach an instance, whether or not its server responds. The error is
// launcher.ErrNotFound if a dedicated server is known not to exist.
func (f *Fleet) Address(ctx context.Context, i store.Instance) (Address, error) {
	if i.Location.Shared() {
		server, err := f.Shared.Server(i.Location.Server)
		if err != nil {
			return Address{}, err
		}
		return Address{Host: server.Host, Port: server.Port, Hosts: server.Hosts,
			CACertificate: server.Admin.CA}, nil
	}
	e, err := f.recordedEndpoint(ctx, i)
	return Address{Host: e.Host, Port: e.Port, CACertificate: e.CACertificate}, err
}

// Starting reports whether a location's server is being started and therefore may not respond yet.
func (f *Fleet) Starting(at store.Location) bool {
	l, known := f.launchers[at.Launcher]
	return known && at.Dedicated() && l.Starting(at.Server)
}

// WithoutTLS reports whether a location's server is known to offer no TLS. Dedicated servers all offer it.
func (f *Fleet) WithoutTLS(at store.Location) bool {
	server, err := f.Shared.Server(at.Server)
	return at.Shared() && err == nil && server.WithoutTLS()
}

// TLSOnly reports whether a location's server is known to refuse logins without TLS.
func (f *Fleet) TLSOnly(at store.Location) bool {
	server, err := f.Shared.Server(at.Server)
	return at.Shared() && err == nil && server.TLSOnly()
}

// Package launcher is where dedicated servers run. An implementation is named by what it runs them with.
package launcher

import (
	"cmp"
	"context"
	"net"
	"strconv"
)

// Launcher runs dedicated servers somewhere. Every method may be called again after a crash, from the start and with
// the same arguments, and must then reach the same end. Methods may be called for different ids at the same time; for
// one id the caller sees to it that at most one call is under way in all replicas, but a call whose process was
// paused may overlap the next one's start, so an implementation locks what it changes.
//
// report may be called any number of times with a sentence for users on what goes on. It may end ctx: then the work is
// another's by now. An error may be an *Error, which says whether to wait, to try again or to give up; any other means
// to try again. What a launch or resize begins that takes long by itself, without a process of the broker's, it need
// not wait for: it returns NotYet, holds nothing meanwhile, and is called again.
//
// The package launchertest tests all this.
type Launcher interface {
	// Launch makes the server, starts it and returns when its admin account can log in. Calling it for a server
	// that runs already returns its endpoint.
	Launch(ctx context.Context, spec Spec, report func(progress string)) (Endpoint, error)

	// Endpoint tells where the server of that id listens, whether or not it answers just now. The broker records it, and
	// that of Launch and Resize; see Options.RecordEndpoint for later changes.
	Endpoint(ctx context.Context, id string) (Endpoint, error)

	// Starting says whether the server of that id is being started, so that it need not answer yet: after a restart of
	// its host, for example. One that was up or failed to start since is not.
	Starting(id string) bool

	// Resize restarts the server with the spec's limits; its data, port and certificate stay as they are.
	// A server that runs with these limits already is left alone.
	Resize(ctx context.Context, spec Spec, report func(progress string)) (Endpoint, error)

	// ChangeAdminPassword runs change, which gives the admin account the next password by SQL, and then keeps that one
	// wherever it keeps the admin password. It returns ErrNotFound for a server that is not there. Called again after a
	// crash, change may find the password changed already.
	ChangeAdminPassword(ctx context.Context, id, next string, change func(context.Context) error) error

	// Destroy stops the server and removes all that Launch made. It must not fail if there is nothing to remove.
	Destroy(ctx context.Context, id string) error

	// Keep records with the server itself that it is about to be reported ready: from then on it may hold data, whatever
	// the broker's own records say, as after PostgreSQL was restored from a backup. It returns ErrNotFound for a server
	// that is not there.
	Keep(ctx context.Context, id string) error

	// DestroyUnused is Destroy, but leaves a server alone that was given to Keep, and returns ErrKept.
	DestroyUnused(ctx context.Context, id string) error

	// List names every server that Launch made, or began to make, and Destroy has not removed.
	List(ctx context.Context) ([]string, error)

	// SignedBy names the servers whose certificate that CA, in PEM, has signed: clients must trust it for as long. It is
	// asked before a CA of Options.Authority is dropped.
	SignedBy(ctx context.Context, ca []byte) (ids []string, err error)

	// WriteNote keeps a note of the broker's beside the servers, in place of an earlier one of that name: after a crash
	// there is either. A name is of lower-case letters, digits and dashes. Servers cannot read notes.
	WriteNote(ctx context.Context, name string, content []byte) error

	// ReadNote returns a note, or nil if there is none of that name.
	ReadNote(ctx context.Context, name string) ([]byte, error)

	// Close ends what the launcher does by itself, and frees what it holds. Servers go on running.
	Close()
}

// Stopper is a Launcher whose servers run on this host and can be stopped, with their data kept, and started again.
type Stopper interface {
	Launcher

	// StartAll returns when every server that was launched is up. One that cannot be started does not keep the others
	// from it.
	StartAll(ctx context.Context) error

	// StopAll is Close, and stops every server. Those that still run when the context ends are killed.
	StopAll(ctx context.Context) error
}

// Spec is what a server is to be.
type Spec struct {
	ID            string            // lower-case letters, digits and underscores, at most 32 characters
	Flavour       string            // "mysql" or "mariadb"; "" for the launcher's own choice
	Version       string            // "9.7" or "9.7.4"; "" for the launcher's own choice
	MemoryMB      int               // MiB the server may use
	MilliCPU      int               // thousandths of a processor the server may use; 0 for no limit
	StorageMB     int               // MiB of disk; the process launcher records it and enforces nothing
	Labels        map[string]string // whose server it is: see fleet.spec. They tell operators, and decide nothing
	AdminUser     string            // account with every privilege, from any host
	AdminPassword string            // URL-safe characters
}

// Endpoint is where a server listens and how to trust it.
type Endpoint struct {
	Host          string // as applications reach it; also a SAN of the server's certificate
	Port          int
	CACertificate []byte // PEM, nil where the server has no TLS

	// AdminHost and AdminPort are how the broker reaches the server, if that is not how applications do. The host need not
	// be a SAN of the certificate, which is verified for Host.
	AdminHost string
	AdminPort int
}

// AdminAddress is where the broker reaches the server, as "host:port".
func (e Endpoint) AdminAddress() string {
	return net.JoinHostPort(cmp.Or(e.AdminHost, e.Host), strconv.Itoa(cmp.Or(e.AdminPort, e.Port)))
}

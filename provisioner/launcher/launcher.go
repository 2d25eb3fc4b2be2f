// Package launcher defines what runs dedicated servers. Each implementation is named for what it runs them with.
package launcher

import (
	"cmp"
	"context"
	"net"
	"strconv"

	"mysql-broker/provisioner/plan"
)

// Launcher runs dedicated servers. A call may be repeated from the start with the same arguments after a crash, and
// must then reach the same result. Methods may run at the same time for different ids. For one id, the caller makes at
// most one call at a time across all replicas. A process that was paused during a call may still overlap with the next
// call, so an implementation locks what it changes.
//
// report tells users what is being done: "Starting the server". Launch calls it at least once. It may end ctx, because
// another broker has taken over the work. A launch or resize whose ctx has ended, even before the call, changes nothing
// more and returns the context's error. Its ctx lasts up to an hour, that of an upgrade half a day, so the launcher
// limits its own waits for a server.
//
// An error may be an *Error, which says whether to wait, to try again or to give up; any other error means to try
// again. A launch or resize need not wait for slow work that continues without a process of the broker: it returns
// NotYet, holds no resources, and is called again.
//
// The package test/launchertest tests most of this contract. A launcher's own tests cover SignedBy, Stopper, Options,
// Spec.MilliCPU, and Starting during a start.
type Launcher interface {
	// Launch creates the server, starts it and returns when its admin account can log in, and nobody else: the root that
	// the installation of a server makes cannot. If the server runs already, it returns its endpoint. Launch gives up if
	// it has no room, or no program of that flavour and version; Destroy removes what was begun.
	Launch(ctx context.Context, spec Spec, report func(progress string)) (Endpoint, error)

	// Endpoint returns where the server listens, whether or not it responds at the moment, or ErrNotFound. The broker
	// records this endpoint and those that Launch and Resize return; see Options.RecordEndpoint for later changes.
	Endpoint(ctx context.Context, id string) (Endpoint, error)

	// Starting reports whether the server is being started, for example after a restart of its host, so that it may not
	// respond yet. It is false once the server was up or failed to start.
	Starting(id string) bool

	// Resize restarts the server with the spec's limits, and with or without binary logs; its data, port and certificate
	// stay the same. A server that already runs like that is left alone. It returns ErrNotFound if there is no such
	// server. If the server refuses the admin password, Resize returns that error of MySQL at once (see
	// mysqladmin.AccessDenied): the caller then tries the password that an interrupted change may have set.
	Resize(ctx context.Context, spec Spec, report func(progress string)) (Endpoint, error)

	// ChangeAdminPassword runs change, which sets the next password of the admin account by SQL, and then stores that
	// password wherever the launcher stores the admin password, if it does. It returns ErrNotFound if there is no such
	// server. After a crash it is called again, and change may find the password changed already.
	ChangeAdminPassword(ctx context.Context, id, next string, change func(context.Context) error) error

	// Suspend stops the server and keeps its data. Until Launch starts it again, with the limits and labels of its spec,
	// the server uses no memory and no port, and Endpoint and Resize return ErrNotFound. Launch may give it another
	// endpoint. Suspend is for servers that were launched: it leaves a suspended server alone, and returns ErrNotFound if
	// there is no such server or its data is gone. It may return NotYet, or give up, as Launch may.
	Suspend(ctx context.Context, id string) error

	// Destroy stops the server and removes everything that Launch created. It must not fail if there is nothing to remove.
	Destroy(ctx context.Context, id string) error

	// Keep records, next to the server, that it is about to be reported ready. From then on it may hold data, whatever the
	// broker's own records say, for example after PostgreSQL was restored from a backup. It returns ErrNotFound if there
	// is no such server.
	Keep(ctx context.Context, id string) error

	// DestroyUnused is Destroy, but leaves a server alone for which Keep was called, and returns ErrKept.
	DestroyUnused(ctx context.Context, id string) error

	// List returns the id of every server that Launch created or started to create and that Destroy has not removed.
	List(ctx context.Context) ([]string, error)

	// SignedBy returns the servers whose certificate was signed by that CA, in PEM. Clients must trust the CA as long as
	// there are any. It leaves out suspended servers, which have no clients, and get another certificate once they run
	// again. It is called before a CA of Options.Authority is dropped.
	SignedBy(ctx context.Context, ca []byte) (ids []string, err error)

	// Record stores a text of at most 200 KiB beside the server and replaces an earlier one; after a crash, one of the two
	// is there. "" removes it. It goes with the server, which cannot read it. Record may run at the same time as any other
	// call. It returns ErrNotFound if there is no such server.
	Record(ctx context.Context, id, text string) error

	// Records returns the texts that Record has stored, by the ids of servers.
	Records(ctx context.Context) (map[string]string, error)

	// WriteNote stores a note of the broker, of at most 512 KiB, next to the servers and replaces an earlier one of that
	// name; after a crash, one of the two is there. A name consists of lower-case letters, digits and dashes. Servers
	// cannot read notes.
	WriteNote(ctx context.Context, name string, content []byte) error

	// ReadNote returns a note, or nil if there is none of that name.
	ReadNote(ctx context.Context, name string) ([]byte, error)

	// Close stops the launcher's background work and frees its resources. Servers keep running.
	Close()
}

// Stopper is a Launcher whose servers run on this host. They can be stopped, which keeps their data, and started again.
type Stopper interface {
	Launcher

	// StartAll returns when every launched server is up. If one cannot be started, the others still are.
	StartAll(ctx context.Context) error

	// StopAll is Close, and also stops every server. Servers that still run when the context ends are killed.
	StopAll(ctx context.Context) error
}

// Upgrader is a Launcher that offers versions of servers, and upgrades servers to them.
type Upgrader interface {
	Launcher

	// Versions returns what can be launched. New servers whose Spec names no version get the newest of its flavour; the
	// first version has the flavour of those that name none.
	Versions() []Version

	// Upgrade stops the server, keeps a copy of its data, and starts it with the newest offered version that matches the
	// spec's. Applications cannot connect before the data is upgraded, and the databases, programs and accounts of before
	// are there. Address, limits, accounts and passwords stay the same. A server that has the version is left alone. It
	// returns ErrNotFound if there is no such server, and gives up if the version is older than the server's, or fails.
	// After that, and if ctx ends, the caller calls Upgrade again or Revert. works is report for what goes on: it is
	// called every few minutes as long as the data is copied or upgraded, so that nobody takes the upgrade for stuck.
	Upgrade(ctx context.Context, spec Spec, report, works func(progress string)) (Endpoint, error)

	// Revert ends an upgrade that did not succeed: the server runs its former version, on the earlier data. It does
	// nothing if the upgrade was not begun or has succeeded.
	Revert(ctx context.Context, spec Spec, report, works func(progress string)) (Endpoint, error)
}

// Spec describes a server.
type Spec struct {
	ID            string            // lower-case letters, digits and underscores, at most 32 characters
	Flavour       string            // "mysql" or "mariadb"; "" for the launcher's own choice
	Version       string            // "9.7" or "9.7.4"; "" for the launcher's own choice
	MemoryMB      int               // MiB the server may use
	MilliCPU      int               // thousandths of a processor the server may use; 0 for no limit
	StorageMB     int               // MiB of disk; the process launcher records it and enforces nothing
	BinaryLogs    bool              // the server keeps binary logs, which the broker archives and purges
	Placement     *plan.Placement   // nil for the launcher's own choice; only for kinds that take one, see Kind
	Labels        map[string]string // whose server it is, see fleet.spec; only informs operators
	AdminUser     string            // account with every privilege, from any host
	AdminPassword string            // URL-safe characters; after ChangeAdminPassword, the new one
}

// Endpoint is where a server listens and how to trust it.
type Endpoint struct {
	Host          string // as applications reach it; also a SAN of the server's certificate
	Port          int
	CACertificate []byte // PEM, nil where the server has no TLS

	// AdminHost and AdminPort are the address that the broker uses, if it differs from that of applications. The
	// certificate is verified for Host, so AdminHost need not be one of its SANs.
	AdminHost string
	AdminPort int
}

// AdminAddress is where the broker reaches the server, as "host:port".
func (e Endpoint) AdminAddress() string {
	return net.JoinHostPort(cmp.Or(e.AdminHost, e.Host), strconv.Itoa(cmp.Or(e.AdminPort, e.Port)))
}

// Package plan knows what an operator sells: plans, their limits, and what developers may ask for with an instance or a
// binding. It imports nothing else of the project.
package plan

import "time"

// Kind says how the instances of a plan are made.
type Kind string

const (
	Shared    Kind = "shared"    // a database on one of the shared servers
	Dedicated Kind = "dedicated" // a server of its own, through a launcher
)

// Async says how a plan answers provision, update and deprovision requests.
type Async string

const (
	AsyncNever     Async = "never"     // in the request
	AsyncPreferred Async = "preferred" // later if the platform accepts that, else in the request
	AsyncRequired  Async = "required"  // later; a platform that does not accept that is refused
)

// Plan says how an instance is made and what it may use.
type Plan struct {
	ID        string
	Name      string
	ServiceID string
	Kind      Kind
	Async     Async
	Launcher  string // who runs the servers of a dedicated plan; "" for the only launcher there is

	// Limits are 0 where nobody knows them any more: see Removed.
	MaxStorageMB   int // MiB of data, and of disk for a dedicated server
	MaxConnections int // simultaneous connections of one account
	MaxBindings    int // bindings of one instance
	MemoryMB       int // MiB of memory of a dedicated server; 0 for shared plans
	TLS            TLS // what its bindings get that do not ask for more

	// Events says that accounts may make events, which run without a connection, so that no limit bounds how many.
	Events bool

	MaxPolling         time.Duration // maximum_polling_duration in the catalog, 0 for none
	MaintenanceVersion string        // maintenance_info.version in the catalog, "" for none

	Removed bool // it is a stand-in for a plan that is not in the catalog any more: see Set.Get
}

// Quota is how many bytes the data of an instance may take; 0 if nobody knows.
func (p Plan) Quota() int64 { return int64(p.MaxStorageMB) << 20 }

// RestoreBelow is a percentage of the quota. An instance that was over its quota may add data again once its data take
// less than that.
const RestoreBelow = 95

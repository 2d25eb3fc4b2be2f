// Package provisioner makes and unmakes MySQL resources: databases on shared servers, dedicated servers, and the
// accounts of bindings. It speaks in operations and plans and knows nothing of HTTP.
package provisioner

import (
	"time"

	"mysql-broker/provisioner/mysqladmin"
)

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

// Plan is what an operator sells: how an instance is made and what it may use.
type Plan struct {
	ID        string
	Name      string
	ServiceID string
	Kind      Kind
	Async     Async

	// Limits are 0 where nobody knows them any more: see withdrawn.
	MaxStorageMB   int // MiB of data, and of disk for a dedicated server
	MaxConnections int // simultaneous connections of one account
	MaxBindings    int // bindings of one instance
	MemoryMB       int // MiB of memory of a dedicated server; 0 for shared plans
	TLS            TLS // what its bindings get that do not ask for more

	// Events says that accounts may make events, which run without a connection, so that no limit bounds how many.
	Events bool

	MaxPolling         time.Duration // maximum_polling_duration in the catalog, 0 for none
	MaintenanceVersion string        // maintenance_info.version in the catalog, "" for none
}

// RestoreBelow is how many per cent of the quota the data of an instance that was over it may not reach for its
// accounts to be allowed to add data again.
const RestoreBelow = 95

// Quota is how many bytes the data of an instance may take; 0 if nobody knows.
func (p Plan) Quota() int64 { return int64(p.MaxStorageMB) << 20 }

// InstanceParameters are what a developer may ask for with an instance. Empty means the server's utf8mb4 default.
type InstanceParameters struct {
	Charset   string `json:"charset,omitempty"`
	Collation string `json:"collation,omitempty"`
}

// BindingParameters are what a developer may ask for with a binding.
type BindingParameters struct {
	Role mysqladmin.Role `json:"role,omitempty"`
	TLS  TLS             `json:"tls,omitempty"` // "" for what the plan says
}

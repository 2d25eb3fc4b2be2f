// Package plan has the plans that an operator offers, their limits, and what developers may ask for with an instance or
// a binding. It imports no other package of the project.
package plan

import "time"

// Kind says how the instances of a plan are made.
type Kind string

const (
	Shared    Kind = "shared"    // a database on one of the shared servers
	Dedicated Kind = "dedicated" // a server of its own, through a launcher
)

// Async says when the broker responds to provision, update and deprovision requests for a plan.
type Async string

const (
	AsyncNever     Async = "never"     // when the work is done
	AsyncPreferred Async = "preferred" // before, if the platform accepts that
	AsyncRequired  Async = "required"  // before; a platform that does not accept that is refused
)

// Plan says how an instance is made and what it may use.
type Plan struct {
	ID        string
	Name      string
	ServiceID string
	Kind      Kind
	Async     Async
	Launcher  string // of the servers of a dedicated plan; "" for the only launcher there is

	// Flavour and Version are what the servers of a dedicated plan are to be, "mariadb" and "11.8". Brokers replace them
	// by the newest such version that the launcher offers. They are "" if the launcher offers no choice.
	Flavour, Version string

	// The limits of a plan that was removed are 0, as they are not known.
	MaxStorageMB   int // MiB of data, and of disk for a dedicated server
	MaxConnections int // simultaneous connections of one account
	MaxBindings    int // bindings of one instance
	MemoryMB       int // MiB of memory of a dedicated server; 0 for shared plans
	MilliCPU       int // thousandths of a processor of a dedicated server; 0 for no limit
	TLS            TLS // of bindings that do not ask for a stricter setting
	Limits         Limits

	// Exclusive says that an instance of a shared plan has a shared server for itself.
	Exclusive bool

	// Events says that accounts may make events. These run without a connection, so that no limit bounds them.
	Events bool

	// Rotatable says that a binding can be created as the successor of another one: binding_rotatable in the catalog.
	Rotatable bool

	// SharedRole is the most that a binding of another space may do; "" means ReadOnly.
	SharedRole Role

	// MaxBindingTTL is the longest time that a binding may last, and the default; 0 for no limit.
	MaxBindingTTL TTL

	// AllowCrossSpace allows the data of an instance for one in another space, if the plans of both have it.
	AllowCrossSpace bool

	// Placement is nil if the plan says nothing about it.
	Placement *Placement

	// KeepDeletedDays is for how many days the data of a deleted instance is kept; 0 if it is dropped at once.
	KeepDeletedDays int

	// Backups says how often instances are backed up, and for how long backups are kept.
	Backups Backups

	// ArchiveLogs says that dedicated servers keep binary logs, which the broker archives.
	ArchiveLogs bool

	MaxPolling         time.Duration // maximum_polling_duration in the catalog, 0 for none
	MaintenanceVersion string        // maintenance_info.version as platforms see it, "" for none

	Removed bool // a stand-in for a plan that was removed from the catalog: see Set.Get
}

// Quota is how many bytes of data an instance may have; 0 if the plan was removed.
func (p Plan) Quota() int64 { return int64(p.MaxStorageMB) << 20 }

// Keeps is for how many days the data of a deleted instance is kept, if its developer asked for that many: never
// longer than the plan says.
func (p Plan) Keeps(asked Days) int {
	if asked.Named {
		return min(asked.N, p.KeepDeletedDays)
	}
	return p.KeepDeletedDays
}

// RestoreBelow is a percentage of the quota. The accounts of an instance that was over its quota may write again once
// its data is below that.
const RestoreBelow = 95

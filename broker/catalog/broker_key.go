package catalog

import (
	"regexp"

	"mysql-broker/provisioner/plan"
)

// minMemoryMB is the least memory, in MiB, with which a dedicated mysqld starts and works.
const minMemoryMB = 192

// DefaultMaxBindings limits the bindings of an instance if its plan sets no limit. Each binding has its own
// connections. Without a limit, one instance could use all connections of a shared server.
const DefaultMaxBindings = 10

// readBrokerKey reads a plan's key "broker", which says how to create instances. Platforms never see it.
func readBrokerKey(parent *object) plan.Plan {
	if !parent.require("broker") {
		return plan.Plan{}
	}
	o, ok := parent.object("broker")
	if !ok {
		return plan.Plan{}
	}
	made := plan.Plan{MaxBindings: DefaultMaxBindings, TLS: plan.TLSOptional}
	for _, key := range []string{"provisioner", "async", "max_storage_mb", "max_connections"} {
		o.require(key)
	}
	choose(o, "provisioner", &made.Kind, plan.Shared, plan.Dedicated)
	choose(o, "async", &made.Async, plan.AsyncNever, plan.AsyncPreferred, plan.AsyncRequired)
	keep(o.positive("max_storage_mb"), &made.MaxStorageMB)
	keep(o.positive("max_connections"), &made.MaxConnections)
	keep(o.positive("max_bindings"), &made.MaxBindings)
	choose(o, "tls", &made.TLS, plan.TLSOptional, plan.TLSRequired)
	keep(o.flag("events"), &made.Events)
	keep(o.flag("exclusive"), &made.Exclusive)
	keep(o.flag("allow_cross_space"), &made.AllowCrossSpace)
	keep(get(o, "keep_deleted_days", "a whole number of days from 0 to 365",
		func(days int) bool { return days >= 0 && days <= maxKeptDays }), &made.KeepDeletedDays)
	choose(o, "shared_role", &made.SharedRole, plan.ReadOnly, plan.ReadWrite, plan.Admin)
	made.MaxBindingTTL = o.ttl("max_binding_ttl")
	made.Limits = readLimits(o)
	keep(o.positive("backup_every_hours"), &made.Backups.EveryHours)
	keep(o.positive("backup_keep_days"), &made.Backups.KeepDays)
	verify := "now"
	choose(o, "verify", &verify, "now", "later")
	made.Backups.VerifyLater = verify == "later"
	readServer(o, &made)
	switch made.Kind {
	case plan.Shared:
		checkShared(o, made)
	case plan.Dedicated:
		checkDedicated(o, made)
	}
	o.close()
	return made
}

var serverVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)

// readServer reads the keys that describe an instance's own server.
func readServer(o *object, made *plan.Plan) {
	keep(o.flag("archive_binary_logs"), &made.ArchiveLogs)
	keep(o.positive("memory_mb"), &made.MemoryMB)
	keep(o.positive("milli_cpu"), &made.MilliCPU)
	if _, named := o.fields["members"]; named && o.has("members") { // else errors would show it as a key
		o.reject("members", "left out: the broker runs no clusters; list one that somebody else runs in "+
			"MYSQL_SERVERS, with exclusive: true if it is for one instance (docs/ha.md)")
	}
	keep(o.optional("launcher"), &made.Launcher)
	choose(o, "flavour", &made.Flavour, "mysql", "mariadb")
	keep(o.optional("version"), &made.Version)
	if made.Version != "" && !serverVersion.MatchString(made.Version) {
		o.reject("version", "the version of a server such as 11.8 or 11.8.9, in quotes")
	}
	made.Placement = readPlacement(o)
}

func checkShared(o *object, made plan.Plan) {
	if o.has("memory_mb") {
		o.reject("memory_mb", "left out: a shared plan has no memory of its own")
	}
	if made.ArchiveLogs {
		o.reject("archive_binary_logs", "left out: shared servers have the binary logs of all tenants together")
	}
	for _, key := range append([]string{"launcher", "milli_cpu", "flavour", "version"}, placementKeys...) {
		if o.has(key) {
			o.reject(key, "left out: shared servers run already")
		}
	}
}

func checkDedicated(o *object, made plan.Plan) {
	if o.has("exclusive") {
		o.reject("exclusive", "left out: every dedicated instance has a server for itself")
	}
	if made.Async != "" && made.Async != plan.AsyncRequired {
		o.reject("async", "required: a dedicated server takes longer to start than a platform waits")
	}
	if made.ArchiveLogs && made.Backups.EveryHours == 0 {
		o.reject("archive_binary_logs", "beside backup_every_hours: a restore begins with a backup")
	}
	if o.require("memory_mb") && made.MemoryMB > 0 && made.MemoryMB < minMemoryMB {
		o.reject("memory_mb", "at least 192")
	}
}

// maxKeptDays limits for how long deleted data is kept. The certificate of a suspended server is valid for longer than
// that: launchers renew it a year before it expires.
const maxKeptDays = 365

// ttl returns the value of an optional key, such as 8h or 30d; 0 if it is absent.
func (o *object) ttl(key string) plan.TTL {
	text := o.optional(key)
	if text == nil {
		return 0
	}
	value, err := plan.ParseTTL(*text)
	if err != nil {
		o.reject(key, err.Error())
	}
	return value
}

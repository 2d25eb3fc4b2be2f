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
	made := plan.Plan{
		Kind: plan.Kind(o.oneOf("provisioner", string(plan.Shared), string(plan.Dedicated))),
		Async: plan.Async(o.oneOf("async", string(plan.AsyncNever),
			string(plan.AsyncPreferred), string(plan.AsyncRequired))),
		MaxStorageMB:   o.limit("max_storage_mb"),
		MaxConnections: o.limit("max_connections"),
		MaxBindings:    DefaultMaxBindings,
		TLS:            o.tls(),
	}
	keep(o.positive("max_bindings"), &made.MaxBindings)
	keep(o.flag("events"), &made.Events)
	keep(o.flag("exclusive"), &made.Exclusive)
	keep(o.flag("allow_cross_space"), &made.AllowCrossSpace)
	made.KeepDeletedDays = o.days("keep_deleted_days")
	if o.has("shared_role") {
		made.SharedRole = plan.Role(o.oneOf("shared_role", string(plan.ReadOnly), string(plan.ReadWrite),
			string(plan.Admin)))
	}
	made.MaxBindingTTL = o.ttl("max_binding_ttl")
	made.Limits = readLimits(o)
	made.Backups = readBackups(o)
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

// keep stores a value that the catalog has.
func keep[T any](found, into *T) {
	if found != nil {
		*into = *found
	}
}

var serverVersion = regexp.MustCompile(`^[0-9]+(\.[0-9]+){0,2}$`)

// readServer reads the keys that describe an instance's own server.
func readServer(o *object, made *plan.Plan) {
	keep(o.flag("archive_binary_logs"), &made.ArchiveLogs)
	keep(o.positive("memory_mb"), &made.MemoryMB)
	keep(o.positive("milli_cpu"), &made.MilliCPU)
	if _, named := o.fields["members"]; named && o.has("members") { // else errors would show it as a key
		o.reject("members", "left out: the broker runs no groups of servers; list a cluster that somebody else runs in "+
			"MYSQL_SERVERS, with exclusive: true if it is for one instance (docs/ha.md)")
	}
	if o.has("launcher") {
		made.Launcher = o.text("launcher")
	}
	if o.has("flavour") {
		made.Flavour = o.oneOf("flavour", "mysql", "mariadb")
	}
	if o.has("version") {
		if made.Version = o.text("version"); made.Version != "" && !serverVersion.MatchString(made.Version) {
			o.reject("version", "the version of a server such as 11.8 or 11.8.9, in quotes")
		}
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

// tls returns the default for bindings: optional, unless the key "tls" has another value.
func (o *object) tls() plan.TLS {
	if !o.has("tls") {
		return plan.TLSOptional
	}
	return plan.TLS(o.oneOf("tls", string(plan.TLSOptional), string(plan.TLSRequired)))
}

// maxKeptDays limits for how long deleted data is kept. The certificate of a suspended server is valid for longer than
// that: launchers renew it a year before it expires.
const maxKeptDays = 365

// days returns the value of an optional key, a number of days; 0 if it is absent.
func (o *object) days(key string) int {
	const want = "a whole number of days from 0 to 365"
	value, ok := get[int](o, key, want)
	if ok && (value < 0 || value > maxKeptDays) {
		o.reject(key, want)
		return 0
	}
	return value
}

// ttl returns the value of an optional key, such as 8h or 30d; 0 if it is absent.
func (o *object) ttl(key string) plan.TTL {
	if !o.has(key) {
		return 0
	}
	value, err := plan.ParseTTL(o.text(key))
	if err != nil {
		o.reject(key, err.Error())
	}
	return value
}

// limit returns the value of a required key, a positive whole number.
func (o *object) limit(key string) int {
	o.require(key)
	if value := o.positive(key); value != nil {
		return *value
	}
	return 0
}

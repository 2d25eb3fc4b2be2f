// Package store keeps everything that brokers record in PostgreSQL. Passwords and private keys are encrypted before
// they are written. The tables are described in migrations/001_schema.sql.
//
// The connection: store.go opens it and runs single statements; tx.go runs transactions, whose statements are sent
// together; outage.go bounds every wait and tells an outage from a refusal; hosts.go finds the primary among several
// servers; failover.go keeps an old primary from being used, and finds lost commits; migrate.go brings the schema up to
// date.
//
// Records, of what there is:
//
//	instances.go      service instances
//	location.go       where the data of an instance live
//	adminpassword.go  dedicated servers' administrators' passwords, while they change
//	bindings.go       service bindings and their accounts
//	credhub.go        what CredHub has of bindings
//	expiry.go         bindings that end by themselves
//	copyaccounts.go   accounts by which tasks copy databases
//	grants.go         accounts whose privileges are to be changed
//	servers.go        shared servers: how full they are, and which are drained
//	resources.go      what is on the servers, whether or not an instance has it still
//	retained.go       what deleted instances have left and can come back from
//	absence.go        instances that the platform was told are gone
//	usage.go          what data take, and took
//	backups.go        backups in the object store; backupcare.go finds which to take, verify and delete
//	authority.go      certificate authorities of dedicated servers
//
// Archives of binary logs: binarylog.go.
//
// Secrets, of brokers themselves:
//
//	keyset.go         keysets, and how a key is replaced in steps
//	keyring.go        encrypts and decrypts with a keyset
//	ownkeyset.go      the keyset that the database belongs to, and the key to the names of locks on MySQL servers
//	rotatekeys.go     encrypts again what is encrypted with an old key
//
// The queue, of what is to be done:
//
//	operations.go     how an operation begins: locks the instance, reads what there is, records
//	tasks.go          tasks, and what operators do with them
//	leases.go         which worker has a task, its progress, its end
//	polls.go          answers platforms that poll tasks, many by one statement
//	audit.go          who did what
//	schedule.go       tasks that brokers record by themselves
//	leaderlease.go    periodic work that one broker at a time does
//
// After PostgreSQL was restored from a backup:
//
//	hold.go           finds out, and holds what could do harm
//	copies.go         instances, as servers keep copies of them
//	recovery.go       makes PostgreSQL agree with the servers again
//
// Reports, for people and metrics:
//
//	lists.go          lists of instances, bindings and tasks; listpage.go reads them in pages
//	activity.go       what is going on at an instance
//	stats.go          numbers of tasks, instances, bindings and quotas
//
// Sessions, of the dashboard: sessions.go.
package store

// Package store keeps everything that brokers record in PostgreSQL. Passwords and private keys are encrypted before
// they are written. The tables are described in migrations/001_schema.sql.
//
// The connection: store.go opens it and runs single statements; tx.go runs transactions, whose statements are sent
// together; outage.go limits every wait and distinguishes outages from refusals; hosts.go finds the primary among
// several servers; failover.go prevents the use of an old primary, and finds lost commits; announce.go hears what
// PostgreSQL announces; migrate.go updates the schema.
//
// Records, of what there is:
//
//	instances.go      service instances
//	location.go       where the data of an instance are
//	otherplace.go     a second place of the data of an instance that is moved
//	endpoint.go       where dedicated servers listen
//	adminpassword.go  dedicated servers' administrators' passwords, while they change
//	bindings.go       service bindings and their accounts
//	credhub.go        what CredHub has of bindings
//	expiry.go         bindings that end by themselves
//	copyaccounts.go   accounts by which tasks copy databases
//	grants.go         accounts whose privileges are to be changed
//	servers.go        shared servers: how full they are, and which are drained
//	resources.go      databases, accounts and servers, until they are known to be gone
//	retained.go       data of deleted instances that can be taken back
//	absence.go        instances that the platform was told are gone
//	usage.go          storage of instances, now and earlier
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
//	tasks.go          tasks, what platforms poll of them, and what operators do with them
//	leases.go         which worker has a task, its progress, its end; when there is something to do
//	audit.go          who did what
//	schedule.go       tasks that brokers record by themselves
//	leaderlease.go    periodic work that one broker at a time does
//
// After PostgreSQL was restored from a backup:
//
//	hold.go           detects that, and holds what could do harm
//	copies.go         instances, as servers keep copies of them
//	recovery.go       makes PostgreSQL agree with the servers again
//
// Reports, for people and metrics:
//
//	lists.go          lists of instances, bindings and tasks; listpage.go reads them in pages
//	activity.go       the state of an instance and its latest task
//	stats.go          numbers of tasks, instances, bindings and quotas
//	counts.go         numbers of instances that limits compare
//
// Sessions, of the dashboard: sessions.go.
package store

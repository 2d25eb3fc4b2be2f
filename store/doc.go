// Package store keeps everything that brokers record in PostgreSQL. Passwords and private keys are encrypted before
// they are written. The tables are described in migrations/001_schema.sql.
//
// The connection: store.go opens it and runs single statements; tx.go runs transactions, whose statements are sent
// together; outage.go limits every wait and distinguishes outages from refusals; hosts.go finds the primary among
// several servers; failover.go prevents the use of an old primary, and finds lost commits; announce.go hears what
// PostgreSQL announces; migrate.go updates the schema.
//
// Store has a field for each subject. Files with another name: otherplace.go, endpoint.go, adminpassword.go and
// absence.go are about instances; expiry.go and grants.go about bindings; operations.go (how an operation begins) and
// schedule.go about tasks; hold.go (detects that PostgreSQL was restored, and holds what could do harm) and copies.go
// (instances as servers keep copies of them) about the recovery; lists.go, activity.go, stats.go and counts.go are
// reports.
//
// Secrets: keyset.go has keysets, and how a key is replaced in steps; keyring.go encrypts and decrypts with one;
// ownkeyset.go knows the keyset that the database belongs to, and the key to the names of locks on MySQL servers.
package store

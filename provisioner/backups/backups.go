// Package backups writes backups to an object store, verifies, purges and restores them: into a new database, up to any
// second if binary logs are archived, or in place.
package backups

import (
	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// Backups backs up the instances of a fleet. Make one with New.
type Backups struct {
	*steps.Servers

	copier *copying.Copier
	vault  *backup.Vault // nil if there is no object store
}

// New returns the backups in a vault; nil stands for a broker without an object store, which refuses them.
func New(c *copying.Copier, vault *backup.Vault) *Backups { return &Backups{c.Servers, c, vault} }

// Kept reports whether this broker has an object store.
func (bs *Backups) Kept() bool { return bs.vault != nil }

// Kinds are the kinds of tasks about backups.
var Kinds = map[string]engine.Kind[*Backups]{
	store.BackUp:  backUpKind,
	store.Restore: restoreKind,
	BackUpDue:     backUpDueKind,
	VerifyBackups: verifyBackupsKind,
	PurgeBackups:  purgeBackupsKind,
}

// Package instances creates, changes and deletes service instances. Where their data comes from and what becomes of it
// is in the packages copying, backups and retained.
package instances

import (
	"time"

	"mysql-broker/provisioner/backups"
	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/retained"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// Instances are all service instances. Make them with New.
type Instances struct {
	*steps.Servers

	copier    *copying.Copier
	backups   *backups.Backups
	retained  *retained.Retained
	limits    plan.Limits // of all plans together
	keepMoved time.Duration
}

// New returns the service instances on the servers of a fleet. keepMoved is how long data can be read where it was
// before it was moved.
func New(c *copying.Copier, b *backups.Backups, r *retained.Retained, limits plan.Limits,
	keepMoved time.Duration) *Instances {
	return &Instances{c.Servers, c, b, r, limits, keepMoved}
}

// Kinds are the kinds of tasks about instances.
var Kinds = map[string]engine.Kind[*Instances]{
	store.Provision:   provisionKind,
	store.Update:      updateKind,
	store.Deprovision: deprovisionKind,
	RemoveFormer:      removeFormerKind,
}

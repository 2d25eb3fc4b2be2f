// Package retained keeps the data of deleted instances for some days. It removes what was kept long enough, records of
// old tasks too.
package retained

import (
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
)

// Retained keeps data. Make one with New.
type Retained struct {
	*steps.Servers

	keepAudit time.Duration
}

// New returns what is retained on the servers of a fleet. keepAudit is how long entries of the audit are kept.
func New(s *steps.Servers, keepAudit time.Duration) *Retained { return &Retained{s, keepAudit} }

// Kinds are the kinds of tasks that remove what was kept long enough.
var Kinds = map[string]engine.Kind[*Retained]{
	RemoveOldTasks: removeOldTasksKind,
	PurgeRetained:  purgeRetainedKind,
}

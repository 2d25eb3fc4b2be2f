// Package audit compares what the platform knows with what exists: in PostgreSQL, on every MySQL server, in the
// object store, and at the launchers, through their inspectors. It makes its own queries, so that it does not repeat the
// broker's mistakes. The broker must be idle.
package audit

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/plan"
)

// State is what the platform knows of an instance or a binding.
type State string

const (
	Exists  State = "exists"
	Gone    State = "gone"
	Failed  State = "failed"  // a record of it may remain, but nothing on any server
	Unknown State = "unknown" // no response came: it must exist completely, or not at all
)

// World is everything that has to agree.
type World struct {
	Records *Records
	Shared  *sql.DB // an administrator's login to the one shared server, which no other broker uses

	Launchers map[string]Inspector // by name
	Objects   objectstore.Store    // where backups are; nil if they are not compared

	Plans    plan.Set // those of the brokers' catalog; connections are not compared if MaxConnections is 0
	Reported Reported
}

// Inspector examines what a launcher runs, by means of its own. Each launcher has one next to its tests.
type Inspector interface {
	// Inspect compares what is there with the servers that should be there, given by their ids, those of suspended servers
	// apart. It returns the endpoints of the running servers that it found, and one sentence for each difference.
	Inspect(ids []string, suspended map[string]bool) (found map[string]launcher.Endpoint, problems []string)
}

// Reported is what the broker has reported to the platform. An instance that it never reported is Gone.
type Reported struct {
	Instances []Instance
	Bindings  []Binding
}

// Instance is a service instance as the platform knows it.
type Instance struct {
	ID     string
	PlanID string // not compared if it is empty
	State  State
	Note   string // what Write has put into its database, if anything
}

// Binding is a service binding as the platform knows it.
type Binding struct {
	InstanceID  string
	ID          string
	Role        string // read-write if it is empty
	State       State
	Credentials Credentials // zero if none were reported
	// Former are the credentials from before the instance's data was moved, zero if they were not. With them, the data
	// can be read for as long as the place exists where it was.
	Former Credentials
}

// Check returns a sentence for every discrepancy.
func Check(ctx context.Context, w World) []string {
	a := &audit{World: w, retired: map[string]bool{}}
	records, err := a.readRecords(ctx)
	if err != nil {
		return []string{fmt.Sprintf("PostgreSQL cannot be read: %v.", err)}
	}
	a.compareInstances(records)
	a.compareBindings(records)
	a.checkShared(ctx, records)
	a.checkLaunchers(ctx, records)
	a.checkFormer(records)
	a.checkLogins(ctx, records)
	slices.Sort(a.found)
	return a.found
}

// audit collects the discrepancies.
type audit struct {
	World
	found   []string
	retired map[string]bool // the accounts that were found
}

func (a *audit) report(format string, args ...any) {
	a.found = append(a.found, fmt.Sprintf(format, args...))
}

// compare reports unexpected and missing names. what says what the names are, and wanted whose each is.
func (a *audit) compare(what string, there []string, wanted map[string]string) {
	for _, name := range there {
		if _, known := wanted[name]; !known {
			a.report("Orphan: %s %s.", what, name)
		}
	}
	for name, owner := range wanted {
		if !slices.Contains(there, name) {
			a.report("Missing: %s %s, of %s.", what, name, owner)
		}
	}
}

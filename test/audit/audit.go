// Package audit compares what the platform knows with what exists: in PostgreSQL, on every MySQL server, in the
// object store, and at the launchers, through their inspectors. It makes its own queries, so that it does not repeat the
// broker's mistakes. The broker must be idle.
package audit

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

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

// checkBackups compares the backups that are recorded with the object store, where each has a folder with a manifest.
func (a *audit) checkBackups(ctx context.Context, pool *pgxpool.Pool) error {
	if a.Objects == nil {
		return nil
	}
	type backupRow struct{ InstanceID, ID, State string }
	recorded, err := rows[backupRow](ctx, pool, "SELECT instance_id, id, state FROM backup")
	if err != nil {
		return err
	}
	wanted := map[string]string{}
	for _, b := range recorded {
		wanted[b.InstanceID+"/"+b.ID] = "instance " + b.InstanceID
		if b.State != "complete" {
			a.report("Backup %s of instance %q is recorded as %s.", b.ID, b.InstanceID, b.State)
		}
	}
	var there []string
	complete := map[string]bool{}
	if err := a.Objects.List(ctx, "", func(name string) error {
		end := strings.LastIndexByte(name, '/')
		if end < 0 { // a broker looks whether the store can be used
			return nil
		}
		if _, known := complete[name[:end]]; !known {
			there = append(there, name[:end])
		}
		complete[name[:end]] = complete[name[:end]] || name[end+1:] == "manifest.json"
		return nil
	}); err != nil {
		return err
	}
	for _, folder := range there {
		if !complete[folder] {
			a.report("Orphan: in the object store, %s has no manifest.", folder)
		}
	}
	a.compare("in the object store, backup", there, wanted)
	return nil
}

// checkLaunchers has each launcher inspected, and compares each dedicated server's content with the records.
func (a *audit) checkLaunchers(ctx context.Context, r records) {
	dedicated := slices.DeleteFunc(append(r.living(), r.former...), func(i instanceRow) bool { return i.Kind != "dedicated" })
	for _, i := range dedicated {
		if a.Launchers[i.Launcher] == nil {
			a.report("Instance %q is at the launcher %q, which nobody inspects.", i.ID, i.Launcher)
		}
	}
	for name, inspector := range a.Launchers {
		var ids []string
		suspended := map[string]bool{}
		for _, i := range r.retained {
			if i.Kind == "dedicated" && i.Launcher == name {
				suspended[i.Server] = true
			}
		}
		for _, i := range dedicated {
			if i.Launcher == name {
				ids = append(ids, i.Server)
			}
		}
		found, problems := inspector.Inspect(ids, suspended)
		a.found = append(a.found, problems...)
		for _, i := range dedicated {
			if e, there := found[i.Server]; there && i.Launcher == name {
				a.checkDedicated(ctx, i, e, r)
			}
		}
	}
}

// checkDedicated looks into one server.
func (a *audit) checkDedicated(ctx context.Context, i instanceRow, e launcher.Endpoint, r records) {
	password, err := a.adminPassword(ctx, i)
	if err != nil {
		a.report("The admin password of the dedicated server %s cannot be read: %v.", i.Server, err)
		return
	}
	where, at := "the dedicated server "+i.Server, Credentials{Host: e.Host, Port: e.Port, Username: "broker_admin",
		Password: password, CACertificate: string(e.CACertificate)}
	admin, err := at.Open()
	if err == nil {
		defer admin.Close()
		err = a.checkServer(ctx, where, admin, r, []instanceRow{i})
	}
	if err != nil {
		a.report("On %s, nothing can be read: %v.", where, err)
	}
}

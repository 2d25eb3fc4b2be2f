package testdrive

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// RestoreBackup requests a restore of a backup in place.
func (i Instance) RestoreBackup(t *testing.T, id, confirm string) Response {
	parameters := Body{"restore_backup": id}
	if confirm != "" {
		parameters["confirm"] = confirm
	}
	return i.Update(t, Async, Body{"context": Named, "parameters": parameters})
}

// Named is a context with the instance's name, as Cloud Foundry sends it.
var Named = Body{"platform": "cloudfoundry", "organization_guid": "an-organization", "space_guid": "a-space",
	"instance_name": "db"}

// BackedUp takes a backup, and returns its id.
func (i Instance) BackedUp(t *testing.T) string {
	return BackupIn(t, i.Await(t, i.BackUp(t).Operation(t)))
}

// BackupIn returns the last backup id in the description of an operation.
func BackupIn(t *testing.T, shown []string) string {
	last := shown[len(shown)-1]
	at := strings.LastIndex(last, "b_")
	require.True(t, at >= 0, "no backup is named in %q", last)
	return strings.TrimRight(strings.Fields(last[at:])[0], ".,:")
}

func (i Instance) BackUp(t *testing.T) Response {
	return i.Update(t, Async, Body{"parameters": Body{"backup": "now"}})
}

// Restored asks for an instance from a backup.
func (i Instance) Restored(t *testing.T, from string, fields Body) Response {
	all := Body{"context": CloudFoundry, "parameters": Body{"restore_from": from}}
	maps.Copy(all, fields)
	return i.Provision(t, Async, all)
}

// RestoredTo creates an instance with the data that another one had at a time.
func (i Instance) RestoredTo(t *testing.T, from string, at time.Time) Response {
	return i.Provision(t, Async, Body{"context": CloudFoundry,
		"parameters": Body{"restore_from": from, "restore_to_time": at.UTC().Format(time.RFC3339)}})
}

// RunScheduled runs a scheduled task, and waits until it has ended.
func RunScheduled(t *testing.T, ts Tasks, kind string) {
	ts.Exec(t, "INSERT INTO task (instance_id, kind, plan_id) VALUES ('', '"+kind+"', '') ON CONFLICT DO NOTHING")
	ts.Until(t, kind+" has ended",
		"SELECT NOT EXISTS (SELECT FROM task WHERE kind = '"+kind+"' AND state = 'in progress')")
}

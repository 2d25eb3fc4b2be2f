package audit

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"
)

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

package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// blockedAge is how old a deletion and a prepared XA transaction must be before the deletion counts as blocked: after a
// crash, transaction managers finish such transactions within minutes.
const blockedAge = time.Hour

// blocked finds the deletions on a shared server that prepared XA transactions may block.
func (d *Doctor) blocked(ctx context.Context, name string) ([]Finding, error) {
	server, err := d.Fleet.Shared.Server(name)
	if err != nil {
		return nil, nil // another finding says that it is not configured
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	prepared, err := server.Prepared(ctx, d.BlockedAge)
	if err != nil || prepared.Old == 0 {
		return nil, err
	}
	deletions, err := d.Store.Resources.Deletions(ctx, name, d.BlockedAge)
	if err != nil {
		return nil, fmt.Errorf("read which deletions are under way: %w", err)
	}
	findings := make([]Finding, len(deletions))
	for n, deletion := range deletions {
		findings[n] = Finding{Problem: Blocked, Kind: store.DatabaseResource, Server: name, Name: deletion.Database,
			InstanceID: deletion.InstanceID, Age: deletion.Age}
		if prepared.AllOld() && len(prepared.XIDs) == 1 {
			findings[n].Repairable = true
			findings[n].ToDo = "drop it, and end the prepared XA transaction " + prepared.XIDs[0] + " if that is in the way"
		} else {
			findings[n].ToDo = "find out which of the server's prepared XA transactions is in the way, and end it with " +
				"XA ROLLBACK: " + strings.Join(prepared.XIDs, " ")
		}
	}
	return findings, nil
}

// unblock drops the database of an instance that is being deleted, and rolls back the transaction that blocks it. The
// deletion then completes by itself.
func (d *Doctor) unblock(ctx context.Context, f Finding) (done string, err error) {
	deletions, err := d.Store.Resources.Deletions(ctx, f.Server, d.BlockedAge)
	if err != nil {
		return "", fmt.Errorf("read which deletions are under way: %w", err)
	}
	if !slices.ContainsFunc(deletions, func(d store.Deletion) bool {
		return d.InstanceID == f.InstanceID && d.Database == f.Name
	}) {
		return "", errChanged
	}
	ended := ""
	err = d.onServer(ctx, f, orphanLock(f), noLease, func(s *mysqladmin.Session) (err error) {
		ended, err = s.Databases.DropBlocked(ctx, f.Name, d.BlockedAge)
		return err
	})
	switch {
	case errors.Is(err, mysqladmin.ErrNotSure):
		return "", fmt.Errorf("%w; end it by hand", err)
	case err != nil:
		return "", err
	case ended == "":
		return "dropped; nothing was in the way", nil
	}
	return "dropped; the prepared XA transaction " + ended + " was rolled back", nil
}

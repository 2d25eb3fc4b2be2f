package doctor

import (
	"context"
	"fmt"
	"strings"
	"time"

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
	xids, err := server.Forgotten(ctx, d.BlockedAge)
	if err != nil || len(xids) == 0 {
		return nil, err
	}
	deletions, err := d.Store.Resources.Deletions(ctx, name, d.BlockedAge)
	if err != nil {
		return nil, fmt.Errorf("read which deletions are under way: %w", err)
	}
	findings := make([]Finding, len(deletions))
	for n, deletion := range deletions {
		findings[n] = Finding{Problem: Blocked, Kind: store.DatabaseResource, Server: name, Name: deletion.Database,
			InstanceID: deletion.InstanceID, Age: deletion.Age, ToDo: "find out which of the server's prepared XA " +
				"transactions is in the way, and end it with XA ROLLBACK: " + strings.Join(xids, " ")}
	}
	return findings, nil
}

package mysqladmin

import (
	"context"
	"errors"
	"maps"
	"slices"
)

// Statuses of events where they were created or altered last. Everywhere else they have another one, whichever of
// these two they have there.
const (
	eventEnabled  = "ENABLED"
	eventDisabled = "DISABLED"
)

// RunningEvents lists the events of a database that a node of the cluster runs: the one on which they were created or
// altered last. On all others they are disabled, also those that the application has not disabled. Both lists are nil
// on a server that is in no cluster. A node that cannot be reached is left out; unknown are the events that it may run,
// or that the application may have disabled there.
func (s *Server) RunningEvents(ctx context.Context, database string) (running, unknown []string, err error) {
	if s.cluster == nil {
		return nil, nil, nil
	}
	var errs []error
	all := map[string]string{}
	for _, one := range s.cluster.all {
		found, err := one.events(ctx, database)
		if err != nil {
			errs = append(errs, err)
		}
		for name, status := range found {
			if status == eventEnabled || all[name] != eventEnabled && all[name] != eventDisabled {
				all[name] = status
			}
		}
	}
	if len(errs) == len(s.cluster.all) {
		return nil, nil, s.explain("read which events run", errors.Join(errs...))
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		switch {
		case all[name] == eventEnabled:
			running = append(running, name)
		case all[name] != eventDisabled && len(errs) > 0:
			unknown = append(unknown, name)
		}
	}
	return running, unknown, nil
}

// events returns the statuses of the events of a database on the node, by name.
func (n *node) events(ctx context.Context, database string) (statuses map[string]string, err error) {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	rows, err := n.db.QueryContext(ctx, "SELECT event_name, status FROM information_schema.events WHERE event_schema = ?",
		database)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // its error is that of rows.Err
	statuses = map[string]string{}
	for rows.Next() {
		var name, status string
		if err := rows.Scan(&name, &status); err != nil {
			return nil, err
		}
		statuses[name] = status
	}
	return statuses, rows.Err()
}

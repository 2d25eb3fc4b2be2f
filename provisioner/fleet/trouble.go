package fleet

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// Trouble returns why a dedicated server does not run, or "" if its launcher sees no reason. It is "" for a database on
// a shared server.
func (f *Fleet) Trouble(ctx context.Context, at store.Location) (launcher.Trouble, error) {
	if !at.Dedicated() {
		return "", nil
	}
	l, err := f.Launcher(at.Launcher)
	if err != nil {
		return "", err
	}
	observer, ok := l.Launcher.(launcher.Observer)
	if !ok {
		return "", nil
	}
	all, err := observer.Troubles(ctx)
	if err != nil {
		return "", fmt.Errorf("ask the launcher %s why the server %s does not run: %w", l.Name, at.Server, err)
	}
	return all[at.Server], nil
}

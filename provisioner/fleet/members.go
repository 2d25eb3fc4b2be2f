package fleet

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/store"
)

// Members returns the members of a dedicated server that is a group; nil for any other.
func (f *Fleet) Members(ctx context.Context, at store.Location) ([]launcher.Member, error) {
	if !at.Dedicated() {
		return nil, nil
	}
	l, err := f.Launcher(at.Launcher)
	if err != nil {
		return nil, err
	}
	grouper, ok := l.Launcher.(launcher.Grouper)
	if !ok {
		return nil, nil
	}
	found, err := grouper.Members(ctx, at.Server)
	if err != nil {
		return nil, fmt.Errorf("ask the launcher %s for the members of %s: %w", l.Name, at.Server, err)
	}
	return found[at.Server], nil
}

package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

// names finds what people call by a name.
type names struct {
	store   *store.Store
	catalog plan.Set
	shared  []shared.Config
}

// plans returns the ids of the plans with a name or id; nil, which means all, for "".
func (n names) plans(ctx context.Context, name string) (ids []string, err error) {
	if name == "" {
		return nil, nil
	}
	var names []string
	for _, p := range n.catalog {
		names = append(names, p.Name)
		if p.Name == name || p.ID == name {
			ids = append(ids, p.ID)
		}
	}
	if ids != nil {
		return ids, nil
	}
	removed, err := n.store.Instances.PlanInUse(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("find the plan: %w", err)
	}
	if !removed {
		return nil, fmt.Errorf("there is no plan %q; the catalog has %s", name, strings.Join(names, ", "))
	}
	return []string{name}, nil
}

// instance returns the id of the instance that a person has called by its id or name.
func (n names) instance(ctx context.Context, name string) (string, error) {
	id, err := n.store.Instances.Named(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return "", &noInstance{name}
	}
	return id, err
}

// noInstance is a store.ErrNotFound that says what there is not.
type noInstance struct{ name string }

func (e *noInstance) Error() string { return fmt.Sprintf("there is no service instance %q", e.name) }

func (*noInstance) Unwrap() error { return store.ErrNotFound }

// instanceOrDeleted is instance for what is also known of deleted instances, by their ids. "" stands for all instances.
func (n names) instanceOrDeleted(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	id, err := n.instance(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return name, nil
	}
	return id, err
}

// servers lists the shared servers that are configured or recorded.
func (n names) servers(ctx context.Context) (names []string, err error) {
	recorded, err := n.store.Servers.Recorded(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which shared servers there are records of: %w", err)
	}
	for _, s := range n.shared {
		names = append(names, s.Admin.Name)
	}
	for _, s := range recorded {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// checkServer returns an error if no shared server has that name; "" is valid.
func (n names) checkServer(ctx context.Context, name string) error {
	if name == "" {
		return nil
	}
	names, err := n.servers(ctx)
	if err == nil && !slices.Contains(names, name) {
		err = fmt.Errorf("there is no shared server %q; there is %s", name, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return err
}

// retained returns the id of what the deleted instance of that id or name has left, or the name itself.
func (n names) retained(ctx context.Context, name string) (string, error) {
	all, err := n.store.Retained.All(ctx)
	var ids, of []string
	for _, r := range all {
		if name == r.ID || name == r.InstanceID || name == r.Name {
			ids, of = append(ids, r.ID), append(of, r.InstanceID)
		}
	}
	switch {
	case err != nil:
		return "", err
	case len(ids) > 1:
		return "", &store.AmbiguousError{Name: name, IDs: of}
	case len(ids) == 1:
		return ids[0], nil
	}
	return name, nil
}

// undrained lists the configured shared servers that are not drained.
func (n names) undrained(ctx context.Context) (names []string, err error) {
	recorded, err := n.store.Servers.Recorded(ctx)
	if err != nil {
		return nil, fmt.Errorf("read which shared servers are drained: %w", err)
	}
	for _, s := range n.shared {
		if !slices.ContainsFunc(recorded, func(r store.ServerState) bool { return r.Name == s.Admin.Name && r.Drained() }) {
			names = append(names, s.Admin.Name)
		}
	}
	return names, nil
}

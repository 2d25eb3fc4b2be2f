package instances

import (
	"context"
	"errors"
	"fmt"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/steps"
	"mysql-broker/store"
)

// ErrCannotMove is returned by MoveTo if an instance cannot be moved to that server.
var ErrCannotMove = errors.New("cannot be moved")

// MoveTo records an update that moves the data of an instance from its shared server to another one, and keeps its
// plan. A broker runs it. The errors are those of engine.Record, store.ErrServerFull if that server is full or drained,
// and ErrCannotMove with the reason.
func MoveTo(ctx context.Context, s *store.Store, servers *shared.Servers, id, server string) (t store.Task, err error) {
	i, err := s.Instances.Get(ctx, id)
	if err != nil {
		return t, err
	}
	to, err := servers.Server(server)
	if err != nil {
		return t, err
	}
	if err := movable(ctx, servers, i, to); err != nil {
		return t, err
	}
	if i.Former() {
		return t, formerKept(ctx, s, i)
	}
	r := engine.Request{Async: true, PlanID: i.PlanID, MaintenanceVersion: i.MaintenanceVersion, Moves: true}
	t, err = engine.Record(ctx, s, id, engine.Beside{}, func(tx *store.Tx, now store.Instance) (store.NewTask, error) {
		if err := copying.ToShared(i, to).Record(ctx, tx, &now); err != nil {
			return store.NewTask{}, err
		}
		return store.NewTask{InstanceID: id, Kind: store.Update, PlanID: i.PlanID, Request: r.JSON(),
			Description: "Moving the data to another server"}, nil
	})
	if err != nil {
		return t, fmt.Errorf("record the move of instance %q: %w", id, err)
	}
	return t, nil
}

// movable returns an error unless the data of an instance can be moved to a shared server.
func movable(ctx context.Context, servers *shared.Servers, i store.Instance, to *shared.Server) error {
	switch {
	case i.Location.Dedicated():
		return fmt.Errorf("%w: it has a server of its own; change its plan", ErrCannotMove)
	case i.Location.Server == to.Name():
		return fmt.Errorf("%w: it is there", ErrCannotMove)
	case i.Other != nil && !i.Former():
		return fmt.Errorf("%w: its data is being moved", ErrCannotMove)
	}
	from, err := servers.Server(i.Location.Server)
	if err != nil {
		return err
	}
	if from.Exclusive != to.Exclusive {
		return fmt.Errorf("%w: one of %s and %s is exclusive, the other is not; change its plan", ErrCannotMove, from.Name(),
			to.Name())
	}
	has, err := from.Flavour(ctx)
	if err != nil {
		return err
	}
	flavour, err := to.Flavour(ctx)
	if err != nil {
		return err
	}
	if !flavour.CanTake(has) {
		return fmt.Errorf("%w: %s is %s, and it is on %s; mysqldump copies between MySQL and MariaDB", ErrCannotMove,
			to.Name(), flavour, has)
	}
	there, err := to.DatabaseExists(ctx, i.Database)
	if err == nil && there && !i.Former() {
		err = fmt.Errorf("%w: %s has a database %s, or is the same server under another name", ErrCannotMove, to.Name(),
			i.Database)
	}
	return err
}

// formerKept says why an instance whose data was moved before cannot be moved again.
func formerKept(ctx context.Context, s *store.Store, i store.Instance) error {
	bindings, err := formerBindings(ctx, s, i)
	if err != nil {
		return err
	}
	if bindings > 0 {
		return fmt.Errorf("%w: the place where its data was before is kept for bindings that are older than the move: %d",
			ErrCannotMove, bindings)
	}
	return fmt.Errorf("%w: the place where its data was before is being removed; try again in a minute", ErrCannotMove)
}

// updateByMove records an update that moves the data of an instance to a server for the plan, and starts it.
func (is *Instances) updateByMove(ctx context.Context, i store.Instance, to plan.Plan,
	r engine.Request) (engine.Result, error) {
	if i.Former() {
		return engine.Result{}, is.formerInUse(ctx, i)
	}
	if to.Kind == plan.Dedicated {
		l, err := is.Fleet.Launcher(to.Launcher)
		if err != nil {
			return engine.Result{}, err
		}
		return is.update(ctx, i, to, r, &copying.Destination{From: i.Location, Password: engine.NewPassword(),
			Location: store.DedicatedLocation(l.Name, engine.NewName("d_"))})
	}
	takes, err := is.copier.Takes(ctx, i, store.Backup{})
	if err != nil {
		return engine.Result{}, engine.Silent("", err)
	}
	search := &steps.Search{Servers: is.Servers, Plan: to, Takes: takes}
	for server := range search.Candidates(ctx) {
		result, err := is.update(ctx, i, to, r, copying.ToShared(i, server))
		if errors.Is(err, store.ErrServerFull) {
			continue
		}
		return result, err
	}
	return engine.Result{}, search.Failure()
}

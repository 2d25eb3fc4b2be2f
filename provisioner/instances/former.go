package instances

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/copying"
	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// removeOther is the step that removes the other place of an instance, with everything in it.
func (is *Instances) removeOther(i store.Instance) task.Step {
	return task.Step{Name: "remove other place", Progress: "Removing the other copy of the data",
		Timeout: steps.DropTimeout,
		Do:      func(ctx context.Context, run *task.Run) error { return is.removePlace(ctx, run, i) }}
}

func (is *Instances) removePlace(ctx context.Context, run *task.Run, i store.Instance) error {
	accounts, err := is.Store.Bindings.Accounts(ctx, i.ID)
	if err != nil {
		return fmt.Errorf("list the accounts: %w", err)
	}
	for _, step := range is.deprovisionWorkflow(i.Elsewhere(), accounts).Steps {
		if err := step.Do(ctx, run); err != nil {
			return err
		}
	}
	if err := is.Store.Instances.ForgetFormer(ctx, i.ID, copying.OwnerAt(i)); err != nil {
		return fmt.Errorf("forget the other place of instance %q: %w", i.ID, err)
	}
	return nil
}

// RemoveFormer is the kind of the task that removes the places where data was before it was moved.
const RemoveFormer = "remove-former-places"

var removeFormerKind = engine.Scheduled(10*time.Minute,
	task.Step{Name: "remove", Progress: "Removing former places of data", Timeout: steps.DropTimeout},
	(*Instances).removeFormer)

// removeFormer removes all places that are not needed any more, even if some of them cannot be removed.
func (is *Instances) removeFormer(ctx context.Context, run *task.Run) error {
	due, err := is.Store.Instances.DueFormer(ctx, is.keepMoved)
	if err != nil {
		return fmt.Errorf("list the places that are not needed any more: %w", err)
	}
	if err := is.SureOfAges(ctx, len(due)); err != nil {
		return err
	}
	return engine.ForEach(run, due, func(i store.Instance) error {
		if err := is.removePlace(ctx, run, i); err != nil {
			return fmt.Errorf("remove the former place of instance %q: %w", i.ID, err)
		}
		is.Log.Info("removed the place where the data of a service instance was before", "instance_id", i.ID,
			"server", i.Other.Location.Server)
		return nil
	})
}

// formerBindings counts the bindings that need the place where the data of an instance was. If there are none, it
// records a task that removes the place.
func formerBindings(ctx context.Context, s *store.Store, i store.Instance) (int, error) {
	bindings, err := s.Instances.FormerBindings(ctx, i.ID)
	if err != nil {
		return 0, fmt.Errorf("count the bindings of before the move: %w", err)
	}
	if bindings == 0 {
		if _, err := task.RunNow(ctx, s, RemoveFormer, removeFormerKind.Kind); err != nil {
			return 0, fmt.Errorf("remove the place where the data was: %w", err)
		}
	}
	return bindings, nil
}

// FormerPlace is what users read about the place where the data of an instance was before it was moved.
type FormerPlace struct {
	Until    time.Time // it is removed then, or when there is no such binding any more
	Bindings int       // that were created before, so that apps may know its address alone
	ToDo     string
}

// FormerPlace reads what users have to know about the former place of an instance.
func (is *Instances) FormerPlace(ctx context.Context, i store.Instance) (FormerPlace, error) {
	bindings, err := is.Store.Instances.FormerBindings(ctx, i.ID)
	if err != nil {
		return FormerPlace{}, fmt.Errorf("count the bindings of before the move: %w", err)
	}
	return FormerPlace{Until: i.Other.Moved.Add(is.keepMoved), Bindings: bindings, ToDo: copying.MoveAdvice}, nil
}

// formerInUse refuses to move data again while the place where they were exists.
func (is *Instances) formerInUse(ctx context.Context, i store.Instance) error {
	bindings, err := formerBindings(ctx, is.Store, i)
	if err != nil {
		return err
	}
	if bindings > 0 {
		return engine.Refuse(engine.PlanChangeRefused,
			"The data of this service instance was moved before, and service bindings still "+
				"have the old address: %d. Bind their apps again, delete these bindings, and try again.", bindings)
	}
	is.Tasks.Nudge()
	return engine.Refuse(engine.Busy, "The place where the data of this service instance was before is being removed. "+
		"Try again in a minute.")
}

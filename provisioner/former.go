package provisioner

import (
	"context"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// endFormer is the step of an unbind that ends the access of an account where the data were before they were moved.
func (p *Provisioner) endFormer(i store.Instance, b store.Binding) task.Step {
	former := i.Elsewhere()
	end := p.inSession(former, bindingLock(i.ID, b.ID),
		func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
			kept, err := s.RevokeAccess(ctx, b.Account, plan.Role(b.Role), former.Database)
			if err == nil && kept {
				err = run.Remember(keptAccount, true)
			}
			return err
		})
	return task.Step{Name: "end former account", Progress: "Closing the account at the old address",
		Do: func(ctx context.Context, run *task.Run) error {
			err := end(ctx, run)
			if errors.Is(err, launcher.ErrNotFound) { // it was removed since
				return nil
			}
			return err
		}}
}

// removeOther is the step that removes the other place of an instance, with everything in it.
func (p *Provisioner) removeOther(i store.Instance) task.Step {
	return task.Step{Name: "remove other place", Progress: "Removing the other copy of the data", Timeout: dropTimeout,
		Do: func(ctx context.Context, run *task.Run) error { return p.removePlace(ctx, run, i) }}
}

func (p *Provisioner) removePlace(ctx context.Context, run *task.Run, i store.Instance) error {
	accounts, err := p.store.Accounts(ctx, i.ID)
	if err != nil {
		return fmt.Errorf("list the accounts: %w", err)
	}
	for _, step := range p.deprovisionWorkflow(i.Elsewhere(), accounts).Steps {
		if err := step.Do(ctx, run); err != nil {
			return err
		}
	}
	if err := p.store.ForgetFormer(ctx, i.ID, ownerAt(i)); err != nil {
		return fmt.Errorf("forget the other place of instance %q: %w", i.ID, err)
	}
	return nil
}

// RemoveFormer is the kind of the task that removes the places where data were before they were moved.
const RemoveFormer = "remove-former-places"

var removeFormerKind = kind{
	Kind: task.Kind{Schedule: store.Schedule{Every: 10 * time.Minute}},
	workflow: func(_ context.Context, p *Provisioner, _ store.Task) (task.Workflow, error) {
		return task.Workflow{Steps: []task.Step{{Name: "remove", Progress: "Removing former places of data",
			Timeout: dropTimeout, Do: p.removeFormer}}}, nil
	},
}

// removeFormer removes all places that are not needed any more, even if some of them cannot be removed.
func (p *Provisioner) removeFormer(ctx context.Context, run *task.Run) error {
	due, err := p.store.DueFormer(ctx, p.keepMoved)
	if err != nil {
		return fmt.Errorf("list the places that are not needed any more: %w", err)
	}
	if err := p.sureOfAges(ctx, len(due)); err != nil {
		return err
	}
	return forEach(run, due, func(i store.Instance) error {
		if err := p.removePlace(ctx, run, i); err != nil {
			return fmt.Errorf("remove the former place of instance %q: %w", i.ID, err)
		}
		p.log.Info("removed the place where the data of a service instance were before", "instance_id", i.ID,
			"server", i.Other.Location.Server)
		return nil
	})
}

// formerBindings counts the bindings that need the place where the data of an instance were. If there are none, it
// records a task that removes the place.
func formerBindings(ctx context.Context, s *store.Store, i store.Instance) (int, error) {
	bindings, err := s.FormerBindings(ctx, i.ID)
	if err != nil {
		return 0, fmt.Errorf("count the bindings of before the move: %w", err)
	}
	if bindings == 0 {
		if _, err := task.RunNow(ctx, s, RemoveFormer, removeFormerKind.Kind); err != nil {
			return 0, fmt.Errorf("remove the place where the data were: %w", err)
		}
	}
	return bindings, nil
}

// FormerPlace is what users read about the place where the data of an instance were before they were moved.
type FormerPlace struct {
	Until    time.Time // it is removed then, or when there is no such binding any more
	Bindings int       // that were created before, so that apps may know its address alone
	ToDo     string
}

// FormerPlace reads what users have to know about the former place of an instance.
func (p *Provisioner) FormerPlace(ctx context.Context, i store.Instance) (FormerPlace, error) {
	bindings, err := p.store.FormerBindings(ctx, i.ID)
	if err != nil {
		return FormerPlace{}, fmt.Errorf("count the bindings of before the move: %w", err)
	}
	return FormerPlace{Until: i.Other.Moved.Add(p.keepMoved), Bindings: bindings, ToDo: moveAdvice}, nil
}

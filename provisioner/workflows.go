package provisioner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/task"
	"mysql-broker/store"
)

// request is what a task records of what was asked beyond its instance's or binding's own row.
type request struct {
	Async              bool   `json:"later,omitempty"`               // answered before the work was done
	PlanID             string `json:"plan_id,omitempty"`             // of an update: the plan to change to
	MaintenanceVersion string `json:"maintenance_version,omitempty"` // of an update
}

func (r request) json() json.RawMessage {
	raw, _ := json.Marshal(r) // a struct of strings and booleans always encodes
	return raw
}

// provisionWorkflow makes an instance. One that was asked for in a request and failed is forgotten, since the
// platform was told so; one that was promised stays, failed, until the platform deletes it, and so does one that may
// have left something over.
func (p *Provisioner) provisionWorkflow(i store.Instance, r request, lock sessionLock) (task.Workflow, error) {
	var parameters plan.InstanceParameters
	if err := json.Unmarshal(i.Parameters, &parameters); err != nil {
		return task.Workflow{}, fmt.Errorf("read the parameters of instance %q: %w", i.ID, err)
	}
	w := task.Workflow{
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.SetInstanceState(i.ID, store.Ready) },
		Failed: func(tx *store.Tx, undone bool) {
			if r.Async || !undone {
				tx.SetInstanceState(i.ID, store.CreateFailed)
			} else {
				tx.DeleteInstance(i.ID)
			}
		},
	}
	createDatabase := task.Step{Name: "create database", Progress: "Creating the database",
		Do: func(ctx context.Context, run *task.Run) error { return p.createDatabase(ctx, run, i, lock, parameters) }}
	if i.Location.Shared() {
		w.Steps = []task.Step{createDatabase}
		w.Cleanup = []task.Step{p.dropEmptyDatabase(i, lock)}
		return w, nil
	}
	w.Steps = []task.Step{
		{Name: "launch", Progress: "Launching the server", Timeout: launchTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				plan, err := p.plan(i.PlanID)
				if err != nil {
					return err
				}
				return p.reporting(ctx, run, func(ctx context.Context, report func(string)) error {
					return p.fleet.Launch(ctx, i, size(plan), report)
				})
			}},
		createDatabase,
		{Name: "check login", Progress: "Checking the first login", Do: func(ctx context.Context, run *task.Run) error {
			return p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
				return notUnreachable(p.fleet.CheckLogin(ctx, i.Location, i.Database, newPassword(), s))
			})
		}},
		{Name: "keep", Progress: "Handing the server over", Do: func(ctx context.Context, _ *task.Run) error {
			return p.fleet.Keep(ctx, i.Location)
		}},
	}
	w.Cleanup = []task.Step{p.destroyUnused(i)}
	return w, nil
}

const (
	// launchTimeout bounds an attempt to launch or resize a server, which bounds its own parts to less.
	launchTimeout = time.Hour
	// dropTimeout bounds an attempt to drop a database: with many tables, on a slow disk, it takes minutes.
	dropTimeout = time.Hour
	// accountsTimeout bounds an attempt at all accounts of an instance.
	accountsTimeout = 10 * time.Minute
)

func size(p plan.Plan) fleet.Size {
	return fleet.Size{MemoryMB: p.MemoryMB, StorageMB: p.MaxStorageMB}
}

// reporting runs a launcher's method whose progress is shown to users. A report that cannot be recorded, because the
// lease is lost, say, ends the method.
func (p *Provisioner) reporting(ctx context.Context, run *task.Run,
	fn func(ctx context.Context, report func(string)) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	err := fn(ctx, func(sentence string) {
		if err := errors.Join(run.Alive(), run.Report(ctx, sentence)); err != nil {
			cancel(err)
		}
	})
	if err != nil && ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return launchError(run.Task, err)
}

// launchError makes of a launcher's error what it means to the task.
func launchError(t store.Task, err error) error {
	known, ok := errors.AsType[*launcher.Error](err)
	if !ok {
		return err
	}
	switch known.Action {
	case launcher.Wait:
		return task.Pending(known.After, known.Sentence)
	case launcher.GiveUp:
		return task.Permanent(fmt.Sprintf("%s %s Tell your operator about %s.", known.Sentence, meanwhile[t.Kind],
			task.Token(t.ID)), err)
	}
	if known.Sentence == "" {
		return err
	}
	return task.Failure(known.Sentence, err)
}

// meanwhile says what a user can do until an operator has seen to a launcher that gives up.
var meanwhile = map[string]string{
	store.Provision: "Delete the service instance and create it again later, or choose a shared plan.",
	store.Update:    "The service instance keeps its plan.",
}

func (p *Provisioner) createDatabase(ctx context.Context, run *task.Run, i store.Instance, lock sessionLock,
	q plan.InstanceParameters) error {
	err := p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
		return s.CreateDatabase(ctx, i.Database, q.Charset, q.Collation)
	})
	if charset, ok := errors.AsType[*mysqladmin.CharsetError](err); ok {
		return task.Permanent(charset.Sentence(), err)
	}
	return err
}

func (p *Provisioner) dropDatabase(i store.Instance, lock sessionLock) task.Step {
	return task.Step{Name: "drop database", Progress: "Dropping the database", Timeout: dropTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			return p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
				return s.DropDatabase(ctx, i.Database)
			})
		}}
}

func (p *Provisioner) destroy(i store.Instance) task.Step {
	return task.Step{Name: "destroy", Progress: "Removing the server", Timeout: launchTimeout,
		Do: func(ctx context.Context, _ *task.Run) error {
			return p.fleet.Destroy(ctx, i.Location)
		}}
}

// updateWorkflow changes an instance's plan. Where the instance was over its quota, and is below the larger one of the
// plan, its accounts may add data again when it ends.
func (p *Provisioner) updateWorkflow(i store.Instance, r request) task.Workflow {
	w := task.Workflow{
		Steps:   p.changePlan(i, i.PlanID, r.PlanID, true),
		Durable: true,
		Succeeded: func(tx *store.Tx, m task.Memory) {
			tx.SetInstancePlan(i.ID, r.PlanID, r.MaintenanceVersion)
			if p.eventsDiffer(i.PlanID, r.PlanID) {
				tx.SetEvents(i.ID, p.plans.Get(r.PlanID).Events)
			}
			var lifted []store.BindingAccount
			if found, err := m.Recall(liftedAccounts, &lifted); !found || err != nil {
				return // the next round of measuring finds out
			}
			tx.SetOver(i.ID, false)
			for _, a := range lifted {
				tx.SetReconciled(a.Account, p.plans.Get(r.PlanID).Events)
			}
		},
		Failed: func(*store.Tx, bool) {},
	}
	if !p.plans.Get(i.PlanID).Removed {
		w.Cleanup = p.changePlan(i, r.PlanID, i.PlanID, false)
	}
	return w
}

// eventsDiffer tells whether a plan lets accounts make events, and another one does not, or is not known any more.
func (p *Provisioner) eventsDiffer(fromID, toID string) bool {
	from := p.plans.Get(fromID)
	return from.Removed || from.Events != p.plans.Get(toID).Events
}

// liftedAccounts are remembered of an instance that was over its quota: they may add data again.
const liftedAccounts = "lifted accounts"

// changePlan lists the steps that give an instance what a plan says, even where it has that already, or a part of it.
// If lift is true, and the instance was over its quota but is below the plan's, its accounts may add data again.
func (p *Provisioner) changePlan(i store.Instance, fromID, planID string, lift bool) []task.Step {
	var steps []task.Step
	if i.Location.Dedicated() {
		steps = append(steps, task.Step{Name: "resize", Progress: "Resizing the server",
			Timeout: launchTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				plan, err := p.plan(planID)
				if err != nil {
					return err
				}
				return p.reporting(ctx, run, func(ctx context.Context, report func(string)) error {
					return p.fleet.Resize(ctx, i, size(plan), report)
				})
			}})
	}
	return append(steps, task.Step{Name: "limit connections", Progress: "Changing the connection limits",
		Timeout: accountsTimeout,
		Do: func(ctx context.Context, run *task.Run) error {
			plan, err := p.plan(planID)
			if err != nil {
				return err
			}
			accounts, err := p.store.Accounts(ctx, i.ID)
			if err != nil || len(accounts) == 0 {
				return err
			}
			current, err := p.store.Instance(ctx, i.ID) // as the guard of quotas may have changed it since
			if err != nil {
				return err
			}
			lifts := false
			if lift && current.OverSince != nil {
				if lifts, err = p.below(ctx, i, plan); err != nil {
					return err
				}
			}
			err = p.onServer(ctx, run, i, instanceLock(i.ID), func(ctx context.Context, s *mysqladmin.Session) error {
				regrant := lifts || current.OverSince == nil && p.eventsDiffer(fromID, planID)
				return changeAccounts(ctx, s, i.Database, accounts, plan, regrant)
			})
			if err == nil && lifts {
				return run.Remember(liftedAccounts, accounts)
			}
			return err
		}})
}

// changeAccounts gives accounts the limits of a plan, and regrants their privileges if these are to change.
func changeAccounts(ctx context.Context, s *mysqladmin.Session, database string, accounts []store.BindingAccount,
	to plan.Plan, regrant bool) error {
	for _, a := range accounts {
		if err := s.SetConnectionLimit(ctx, a.Account, to.MaxConnections); err != nil {
			return err
		}
		if !regrant {
			continue
		}
		if err := s.RestoreWritePrivileges(ctx, a.Account, plan.Role(a.Role), to.Events, database); err != nil {
			return err
		}
	}
	return nil
}

// below tells whether the data of an instance that is over its quota are below the mark of another plan's, by what was
// last measured: meanwhile they could not grow.
func (p *Provisioner) below(ctx context.Context, i store.Instance, of plan.Plan) (bool, error) {
	usage, err := p.store.Usage(ctx, i.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read what the instance's data take: %w", err)
	}
	return usage.Bytes*100 < of.Quota()*plan.RestoreBelow, nil
}

// deprovisionWorkflow removes an instance with whatever a provision, bind or unbind that was cancelled may have left.
// accounts are all that it ever had: none is added once its deprovision is recorded.
func (p *Provisioner) deprovisionWorkflow(i store.Instance, accounts []store.BindingAccount,
	lock sessionLock) task.Workflow {
	w := task.Workflow{
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.DeleteInstance(i.ID) },
		Failed:    func(tx *store.Tx, _ bool) { tx.SetInstanceState(i.ID, store.DeleteFailed) },
	}
	if i.Location.Dedicated() {
		w.Steps = []task.Step{p.destroy(i)}
		return w
	}
	// Accounts end first, so that no session can make the database anew; those that views or routines name as their
	// definer can be dropped only once the database is gone.
	w.Steps = []task.Step{
		{Name: "end accounts", Progress: "Closing the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error { return p.endAccounts(ctx, run, i, accounts, lock) }},
		p.dropDatabase(i, lock),
		{Name: "drop accounts", Progress: "Dropping the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error {
				return p.eachAccount(ctx, run, i, accounts,
					func(ctx context.Context, s *mysqladmin.Session, account string) error {
						return s.DropShutAccount(ctx, account)
					})
			}},
	}
	return w
}

// endAccounts shuts all accounts of an instance whose database will be dropped, those too that come after one which the
// server cannot shut, and then waits once for the logins that were pending meanwhile.
func (p *Provisioner) endAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, lock sessionLock) error {
	var names []string
	var pending mysqladmin.PendingLogins
	var failed error
	shut := func(ctx context.Context, s *mysqladmin.Session, account string) error {
		found, err := s.ShutAccount(ctx, account)
		names = append(names, account)
		pending.Add(found)
		if mysqladmin.Refused(err) {
			failed = errors.Join(failed, err)
			return nil
		}
		return err
	}
	err := p.eachAccount(ctx, run, i, accounts, shut)
	if err == nil && pending.Any() {
		err = p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
			return s.EndLogins(ctx, pending, names...)
		})
	}
	return errors.Join(failed, err)
}

// eachAccount runs fn for accounts of an instance, each under its binding's session lock: a bind that was cancelled may
// still be at it.
func (p *Provisioner) eachAccount(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount, fn func(ctx context.Context, s *mysqladmin.Session, account string) error) error {
	for _, a := range accounts {
		if err := p.onServer(ctx, run, i, bindingLock(i.ID, a.BindingID),
			func(ctx context.Context, s *mysqladmin.Session) error { return fn(ctx, s, a.Account) }); err != nil {
			return err
		}
	}
	return nil
}

// bindWorkflow makes the account of a binding. A bind that failed is forgotten, since the platform was told so.
func (p *Provisioner) bindWorkflow(i store.Instance, b store.Binding, lock sessionLock) task.Workflow {
	lock.adds = true
	onServer := func(ctx context.Context, run *task.Run, fn func(context.Context, *mysqladmin.Session) error) error {
		return p.onServer(ctx, run, i, lock, fn)
	}
	return task.Workflow{
		Steps: []task.Step{{Name: "create account", Progress: "Creating the account",
			Do: func(ctx context.Context, run *task.Run) error {
				has, err := p.plan(i.PlanID)
				if err != nil {
					return err
				}
				address, err := p.fleet.Address(ctx, i.Location)
				if err != nil {
					return err
				}
				return onServer(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
					return s.CreateAccount(ctx, mysqladmin.Account{Name: b.Account, Password: b.Password,
						Database: i.Database, Role: plan.Role(b.Role), MaxConnections: has.MaxConnections,
						Events: has.Events, RequireTLS: plan.TLS(b.TLS).Required(address.CACertificate != nil),
						Restricted: i.OverSince != nil, OwnServer: i.Location.Dedicated()})
				})
			}}},
		Cleanup: []task.Step{{Name: "drop account", Progress: "Dropping the account",
			Do: func(ctx context.Context, run *task.Run) error {
				return onServer(ctx, run, func(ctx context.Context, s *mysqladmin.Session) error {
					return s.DropAccount(ctx, b.Account)
				})
			}}},
		Durable:   true,
		Succeeded: func(tx *store.Tx, _ task.Memory) { tx.SetBindingState(i.ID, b.ID, store.Ready) },
		Failed: func(tx *store.Tx, undone bool) {
			if !undone { // it goes with the instance
				tx.RecordRetiredAccount(i.ID, b.Account)
			}
			tx.DeleteBinding(i.ID, b.ID)
		},
	}
}

// keptAccount is remembered of an account that is not dropped, as something runs in its name.
const keptAccount = "kept account"

// unbindWorkflow ends the account of a binding. It stays, locked, where views, triggers, routines or events run in
// its name, and goes with the instance.
func (p *Provisioner) unbindWorkflow(i store.Instance, b store.Binding, lock sessionLock) task.Workflow {
	return task.Workflow{
		Steps: []task.Step{{Name: "end account", Progress: "Closing the account",
			Do: func(ctx context.Context, run *task.Run) error {
				return p.onServer(ctx, run, i, lock, func(ctx context.Context, s *mysqladmin.Session) error {
					kept, err := s.RevokeAccess(ctx, b.Account, plan.Role(b.Role), i.Database)
					return errors.Join(err, run.Remember(keptAccount, kept))
				})
			}}},
		Succeeded: func(tx *store.Tx, m task.Memory) {
			var kept bool
			if _, err := m.Recall(keptAccount, &kept); kept || err != nil {
				tx.RecordRetiredAccount(i.ID, b.Account)
			}
			tx.DeleteBinding(i.ID, b.ID)
		},
		Failed: func(*store.Tx, bool) {},
	}
}

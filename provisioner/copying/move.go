package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/engine"
	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/steps"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

const (
	// frozenTime limits for how long a move keeps applications from writing. Then the move is given up, and they may
	// write again.
	frozenTime = 15 * time.Minute
	// frozenSince is when the task took the write privileges.
	frozenSince task.Key[time.Time] = "frozen since"
	// handingOver says that the task has begun to hand the data over.
	handingOver task.Key[bool] = "handing over"
	// withinQuota says that the instance was over its quota, and is below that of its new plan.
	withinQuota task.Key[bool] = "within its quota"
)

// OwnerAt is the name of the account that owns the objects of an instance that were moved to its location.
func OwnerAt(i store.Instance) string { return CopyAccount(i, "owner at "+i.Location.Server) }

// Moves reports whether a change to a plan moves the data of an instance to another server.
func (c *Copier) Moves(i store.Instance, to plan.Plan) (bool, error) {
	if to.Kind == plan.Shared {
		server, err := c.Fleet.Shared.Server(i.Location.Server)
		return i.Location.Dedicated() || err == nil && server.Exclusive != to.Exclusive, nil
	}
	l, err := c.Fleet.Launcher(to.Launcher)
	if err != nil && i.Location.Shared() {
		return false, &engine.Error{Code: engine.PlanChangeRefused, Err: err,
			Sentence: "This broker offers no dedicated servers. Choose a shared plan."}
	}
	return i.Location.Shared() || err == nil && l.Name != i.Location.Launcher, nil
}

// Destination is where data is to be moved to.
type Destination struct {
	From     store.Location
	Location store.Location
	Password string // of a dedicated server's administrator
	max      int    // how many instances a shared server takes
}

// Record records the destination of an instance, which the transaction has locked.
func (w *Destination) Record(ctx context.Context, tx *store.Tx, i *store.Instance) error {
	if w == nil || w.From != i.Location || i.Other != nil { // it has changed since it was looked at
		return engine.ErrBusy
	}
	there := *i
	there.Location = w.Location
	err := tx.SetDestination(ctx, *i, w.Location, w.Password, w.max, OwnerAt(there))
	i.Other = &store.OtherPlace{Location: w.Location, AdminPassword: w.Password}
	return err
}

func ToShared(i store.Instance, server *shared.Server) *Destination {
	return &Destination{From: i.Location, Location: store.SharedLocation(server.Name()), max: server.MaxDatabases}
}

// move is the work of an update that moves the data of an instance to its other place: all rows are copied while
// applications write, then nobody may write until the copy was compared and completed, and the update ends with the
// record of the new place.
type move struct {
	*Copier
	from store.Instance
	to   store.Instance // as it will be, with the new plan
	// known is for the comparison while nobody may write. Only this worker can write to the new place: another one would
	// have other passwords, and know nothing.
	known *transfer.Known
}

func (c *Copier) newMove(i store.Instance, r engine.Request) move {
	m := move{c, i, i.Elsewhere(), new(transfer.Known)}
	m.to.PlanID, m.to.MaintenanceVersion = r.PlanID, r.MaintenanceVersion
	return m
}

// filling copies the database. The first time, it copies rows alone; the second time, it compares them, and creates
// everything else.
func (m move) filling(rowsOnly bool) Filling {
	return Filling{Copier: m.Copier, Instance: m.to, moves: true, rowsOnly: rowsOnly, known: m.known,
		Parameters: plan.InstanceParameters{CloneFrom: m.from.ID}, Lock: steps.InstanceLock(m.from.ID)}
}

// MoveAdvice is what users read at the end.
const MoveAdvice = "The data was moved. Give each app the new address: `cf bind-service APP INSTANCE --strategy " +
	"multiple`, `cf restart APP --strategy rolling`, `cf cleanup-outdated-service-bindings APP`. Until then, apps read " +
	"the data at the old address, as it was at the move, and cannot write."

func (c *Copier) MoveWorkflow(i store.Instance, r engine.Request) task.Workflow {
	if i.Other == nil { // cannot be: it is recorded with the task
		return task.Workflow{Steps: []task.Step{{Name: "look", Progress: "Looking for the destination",
			Do: func(context.Context, *task.Run) error { return errors.New("no destination is recorded") }}}}
	}
	m := c.newMove(i, r)
	w := task.Workflow{
		Durable: true,
		Advice:  MoveAdvice,
		Succeeded: func(tx *store.Tx, memory task.Memory) {
			tx.SwapPlaces(i.ID)
			tx.SetInstancePlan(i.ID, r.PlanID, r.MaintenanceVersion)
			if r.KeepDeletedDays.Named {
				tx.SetKeepDeletedDays(i.ID, r.KeepDeletedDays.N)
			}
			tx.SetEvents(i.ID, c.Plans.Get(r.PlanID).Events)
			if within, _, err := withinQuota.In(memory); err == nil && within {
				tx.SetOver(i.ID, false)
			}
		},
		Failed: func(tx *store.Tx, _ task.Memory, undone bool) {
			tx.ForgetDestination(i.ID)
			if !undone { // accounts may be frozen
				tx.MarkGrants(i.ID)
			}
		},
	}
	createDatabase := task.Step{Name: "create database", Progress: "Creating the database",
		Do: c.WithRoom(m.to, true, c.InSession(m.to, steps.InstanceLock(i.ID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.Databases.Create(ctx, i.Database, "", "")
			}))}
	if m.to.Location.Dedicated() {
		w.Steps = []task.Step{c.Launch(m.to), createDatabase, {Name: "check login", Progress: "Checking the first login",
			Do: c.InSession(m.to, steps.InstanceLock(i.ID),
				func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
					err := c.Fleet.CheckLogin(ctx, m.to.Location, i.Database, engine.NewPassword(), s)
					return cmp.Or(c.NoRoom(ctx, run, m.to, true, err), engine.OfOther(err))
				})}}
	} else {
		w.Steps = []task.Step{createDatabase}
	}
	w.Steps = append(w.Steps,
		task.Step{Name: "copy", Progress: "Copying the data", Timeout: FillTimeout, Do: c.InTurn(m.copyRows)},
		task.Step{Name: "freeze", Progress: "Waiting for the last writes", Timeout: steps.AccountsTimeout, Do: m.freeze},
		task.Step{Name: "compare", Progress: "Comparing the data", Timeout: frozenTime, Do: m.whileFrozen(m.compare)},
		task.Step{Name: "hand over", Progress: "Handing the data over", Do: m.handOver})
	w.Cleanup = m.cleanup()
	return w
}

// copyRows copies the rows while applications write. A prepared XA transaction that keeps a table locked may do so for
// long, and the copy could wait for it in vain.
func (m move) copyRows(ctx context.Context, run *task.Run) error {
	err := m.InSession(m.from, steps.InstanceLock(m.from.ID),
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			blocked, err := s.Writes.BlockedByXA(ctx, m.from.Database)
			if err != nil || !blocked {
				return err
			}
			return AwaitLocks(run, engine.TablesLockedByXA,
				errors.New("a transaction keeps a table locked, and some are prepared by XA"))
		})(ctx, run)
	if err != nil {
		return err
	}
	return m.filling(true).fill(ctx, run)
}

// freeze takes the privileges to write from all accounts of the instance, also from those in whose names programs run.
func (m move) freeze(ctx context.Context, run *task.Run) error {
	if _, found, err := frozenSince.Recall(run); err != nil {
		return err
	} else if !found {
		if err := frozenSince.Save(ctx, run, run.Now()); err != nil {
			return err
		}
	}
	if err := m.frozenTooLong(run); err != nil {
		return err
	}
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	writing := slices.DeleteFunc(accounts, func(a store.BindingAccount) bool { return steps.RoleOf(a) == plan.ReadOnly })
	return m.FreezeAccounts(ctx, run, m.from, writing)
}

// writers lists the accounts of the instance, without those of the copy.
func (m move) writers(ctx context.Context) (all []store.BindingAccount, err error) {
	accounts, err := m.Store.Bindings.Accounts(ctx, m.from.ID)
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	f := m.filling(false)
	return Without(accounts, f.reader(), f.owner()), nil
}

// Without returns the accounts, without those with the given names.
func Without(accounts []store.BindingAccount, names ...string) []store.BindingAccount {
	return slices.DeleteFunc(slices.Clone(accounts), func(a store.BindingAccount) bool {
		return slices.Contains(names, a.Account)
	})
}

// whileFrozen returns a Do function that gives the task up if applications have not been able to write for too long.
func (m move) whileFrozen(do func(context.Context, *task.Run) error) func(context.Context, *task.Run) error {
	return func(ctx context.Context, run *task.Run) error {
		if err := m.frozenTooLong(run); err != nil {
			return err
		}
		return do(ctx, run)
	}
}

func (m move) frozenTooLong(run *task.Run) error {
	frozen, err := task.Since(run, frozenSince)
	if err != nil {
		return err
	}
	if frozen > frozenTime {
		return engine.Fail(run.Task, engine.ComparedTooLong, fmt.Errorf("apps could not write for %v", frozen))
	}
	return nil
}

// compare completes the copy, and creates the accounts of the bindings.
func (m move) compare(ctx context.Context, run *task.Run) error {
	f := m.filling(false)
	if err := f.fill(ctx, run); err != nil {
		return err
	}
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	return m.WithRoom(m.to, true, func(ctx context.Context, run *task.Run) error {
		return m.CreateAccounts(ctx, run, m.to, accounts)
	})(ctx, run)
}

// CreateAccounts creates the accounts of the bindings of an instance on a server that does not have them, with their
// names and passwords, and what the instance allows them: nobody may add data to one that is over its quota or frozen,
// or log in after the end of a binding.
func (c *Copier) CreateAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	of, err := c.Plan(i.PlanID)
	if err != nil {
		return err
	}
	restricted, err := c.restricted(ctx, run, i, of)
	if err != nil {
		return err
	}
	return c.InSession(i, steps.InstanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		for _, a := range accounts {
			if a.BindingID == "" {
				continue
			}
			b, err := c.Store.Bindings.Get(ctx, i.ID, a.BindingID)
			if err != nil {
				return fmt.Errorf("read the binding %q: %w", a.BindingID, err)
			}
			if b.State != store.Ready {
				continue
			}
			account := fleet.AccountOf(i, b, of)
			account.Restricted, account.Locked = restricted, a.Expired && c.SureOfAges(ctx, 1) == nil
			if err := s.Accounts.Create(ctx, account); err != nil {
				return err
			}
		}
		return nil
	})(ctx, run)
}

// restricted reports whether the accounts of an instance may add no data under a plan. Whether it counts as frozen, the
// caller decides, as no other task can freeze it meanwhile: for a restore of a lost database, it does not.
func (c *Copier) restricted(ctx context.Context, run *task.Run, i store.Instance, of plan.Plan) (bool, error) {
	current, err := c.Store.Instances.Get(ctx, i.ID) // the quota guard may have changed it since
	if err != nil {
		return false, fmt.Errorf("read the instance: %w", err)
	}
	if current.OverSince == nil || current.PlanID == of.ID {
		return current.OverSince != nil || i.FrozenSince != nil, nil
	}
	below, err := c.Below(ctx, i, of)
	if err == nil {
		err = withinQuota.Remember(run, below)
	}
	return !below, err
}

// handOver marks the copy as finished, which keeps every cleanup from removing it: the record of the new place may have
// been lost with a PostgreSQL that was restored. So a move that has begun to hand over goes on, however long it takes.
func (m move) handOver(ctx context.Context, run *task.Run) error {
	begun, _, err := handingOver.Recall(run)
	if err != nil {
		return err
	}
	if !begun {
		if err := m.frozenTooLong(run); err != nil {
			return err
		}
		if err := handingOver.Save(ctx, run, true); err != nil {
			return err
		}
	}
	if err := m.filling(false).finish(ctx, run); err != nil {
		return err
	}
	readOnly, err := m.IsReadOnly(ctx, m.from)
	if err == nil && readOnly {
		err = m.SetReadOnly(ctx, run, m.to, true)
	}
	if err == nil && m.to.Location.Dedicated() {
		err = m.Fleet.Keep(ctx, m.to.Location)
	}
	if err != nil {
		return err
	}
	arriving, err := m.Store.Recovery.ArrivingCopy(ctx, m.to.ID, m.to.PlanID, m.to.MaintenanceVersion)
	if err != nil {
		return fmt.Errorf("read what to record at the new place: %w", err)
	}
	return m.unreached(ctx, run, mark.Arrive(ctx, m.Store, m.Fleet, arriving, m.to.Location))
}

// unreached is the error of a statement at the new place outside of a session. It waits for no launcher.
func (m move) unreached(ctx context.Context, run *task.Run, err error) error {
	if m.to.Location.Shared() && ctx.Err() == nil && mysqladmin.CannotReach(err) {
		return engine.Fail(run.Task, engine.ServerSilent, err)
	}
	return err
}

// leave removes the record that the data is at the new place.
func (m move) leave(ctx context.Context, run *task.Run) error {
	if begun, _, err := handingOver.Recall(run); err != nil || !begun {
		return err
	}
	return m.unreached(ctx, run, mark.Leave(ctx, m.Store, m.Fleet, m.to.Database, m.to.Location))
}

// cleanup gives the privileges to write back, and removes the copy.
func (m move) cleanup() []task.Step {
	all := []task.Step{{Name: "thaw", Progress: "Giving the write privileges back", Timeout: steps.AccountsTimeout,
		Do: m.thaw}, {Name: "leave", Progress: "Undoing the move", Do: m.leave}}
	all = append(all, m.filling(false).Cleanup()...)
	if m.to.Location.Dedicated() {
		all = append(all, m.DestroyUnused(m.to))
	} else {
		all = append(all, task.Step{Name: "drop accounts", Progress: "Dropping the accounts",
			Timeout: steps.AccountsTimeout, Do: m.dropAccounts})
	}
	return append(all, task.Step{Name: "forget owner", Progress: "Forgetting the owner",
		Do: func(ctx context.Context, run *task.Run) error {
			return m.Store.CopyAccounts.Forget(ctx, engine.LeaseOf(run.Task), m.filling(false).owner())
		}})
}

func (m move) thaw(ctx context.Context, run *task.Run) error {
	if _, found, err := frozenSince.Recall(run); err != nil || !found {
		return err
	}
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	current, err := m.Store.Instances.Get(ctx, m.from.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	return m.ThawAccounts(ctx, run, m.from, accounts, current.OverSince != nil)
}

// dropAccounts drops the accounts of the bindings at the destination.
func (m move) dropAccounts(ctx context.Context, run *task.Run) error {
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	return m.EachAccount(ctx, run, m.to, accounts,
		func(ctx context.Context, s *mysqladmin.Session, account string) error {
			return s.Accounts.Drop(ctx, account)
		})
}

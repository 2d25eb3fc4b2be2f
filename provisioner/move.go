package provisioner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/provisioner/shared"
	"mysql-broker/provisioner/task"
	"mysql-broker/provisioner/transfer"
	"mysql-broker/store"
)

const (
	// frozenTime limits for how long a move keeps applications from writing. Then the move is given up, and they may
	// write again.
	frozenTime = 15 * time.Minute
	// frozenSince is the key under which the task remembers when it took the write privileges.
	frozenSince = "frozen since"
	// handingOver is the key under which the task remembers that it has begun to hand the data over.
	handingOver = "handing over"
)

// ownerAt is the name of the account that owns the objects of an instance that were moved to its location.
func ownerAt(i store.Instance) string { return copyAccount(i, "owner at "+i.Location.Server) }

// moves reports whether a change to a plan moves the data of an instance to another server.
func (p *Provisioner) moves(i store.Instance, to plan.Plan) (bool, error) {
	if to.Kind == plan.Shared {
		return i.Location.Dedicated(), nil
	}
	l, err := p.fleet.Launcher(to.Launcher)
	if err != nil && i.Location.Shared() {
		return false, &Error{Code: PlanChangeRefused, Err: err,
			Sentence: "This broker offers no dedicated servers. Choose a shared plan."}
	}
	return i.Location.Shared() || err == nil && l.Name != i.Location.Launcher, nil
}

// keepsMembers refuses a plan that has another number of servers for an instance.
func keepsMembers(i store.Instance, from, to plan.Plan) error {
	members := from.Members
	if i.Endpoint != nil {
		members = len(i.Endpoint.Members)
	}
	if members == to.Members {
		return nil
	}
	return refuse(PlanChangeRefused, "Plan %s has another number of servers, and this service instance keeps those that "+
		"it has. Create a service instance of that plan with clone_from.", to.Name)
}

// destination is where data are to be moved to.
type destination struct {
	from     store.Location
	location store.Location
	password string // of a dedicated server's administrator
	max      int    // how many instances a shared server takes
}

// record records the destination of an instance, which the transaction has locked.
func (w *destination) record(ctx context.Context, tx *store.Tx, i *store.Instance) error {
	if w == nil || w.from != i.Location || i.Other != nil { // it has changed since it was looked at
		return errBusy
	}
	there := *i
	there.Location = w.location
	err := tx.SetDestination(ctx, *i, w.location, w.password, w.max, ownerAt(there))
	i.Other = &store.OtherPlace{Location: w.location, AdminPassword: w.password}
	return err
}

// updateByMove records an update that moves the data of an instance to a server for the plan, and starts it.
func (p *Provisioner) updateByMove(ctx context.Context, i store.Instance, to plan.Plan, r request) (Result, error) {
	if i.Former() {
		return Result{}, p.formerInUse(ctx, i)
	}
	if to.Kind == plan.Dedicated {
		l, err := p.fleet.Launcher(to.Launcher)
		if err != nil {
			return Result{}, err
		}
		return p.update(ctx, i, to, r, &destination{from: i.Location, password: newPassword(),
			location: store.DedicatedLocation(l.Name, newName("d_"))})
	}
	takes, err := p.takes(ctx, i, store.Backup{})
	if err != nil {
		return Result{}, &Error{Code: Unavailable, Err: err,
			Sentence: "The MySQL server does not answer just now. Try again in a minute, or tell your operator."}
	}
	search := &placement{placer: &p.placer, takes: takes}
	for server := range search.candidates(ctx) {
		result, err := p.update(ctx, i, to, r, toShared(i, server))
		if errors.Is(err, store.ErrServerFull) {
			continue
		}
		return result, err
	}
	return Result{}, search.failure()
}

func toShared(i store.Instance, server *shared.Server) *destination {
	return &destination{from: i.Location, location: store.SharedLocation(server.Name()), max: server.MaxDatabases}
}

// formerInUse refuses to move data again while the place where they were exists.
func (p *Provisioner) formerInUse(ctx context.Context, i store.Instance) error {
	bindings, err := formerBindings(ctx, p.store, i)
	if err != nil {
		return err
	}
	if bindings > 0 {
		return refuse(PlanChangeRefused, "The data of this service instance were moved before, and service bindings still "+
			"have the old address: %d. Bind their apps again, delete these bindings, and try again.", bindings)
	}
	p.tasks.Nudge()
	return refuse(Busy, "The place where the data of this service instance were before is being removed. "+
		"Try again in a minute.")
}

// move is the work of an update that moves the data of an instance to its other place: all rows are copied while
// applications write, then nobody may write until the copy was compared and completed, and the update ends with the
// record of the new place.
type move struct {
	*Provisioner
	from store.Instance
	to   store.Instance // as it will be, with the new plan
	// known is for the comparison while nobody may write. Only this worker can write to the new place: another one would
	// have other passwords, and know nothing.
	known *transfer.Known
}

func (p *Provisioner) newMove(i store.Instance, planID string) move {
	m := move{p, i, i.Elsewhere(), new(transfer.Known)}
	m.to.PlanID = planID
	return m
}

// filling copies the database. The first time, it copies rows alone; the second time, it compares them, and creates
// everything else.
func (m move) filling(rowsOnly bool) filling {
	return filling{Provisioner: m.Provisioner, instance: m.to, moves: true, rowsOnly: rowsOnly, known: m.known,
		parameters: plan.InstanceParameters{CloneFrom: m.from.ID}, lock: instanceLock(m.from.ID)}
}

// moveAdvice is what users read at the end.
const moveAdvice = "The data were moved. Give each app the new address: `cf bind-service APP INSTANCE --strategy " +
	"multiple`, `cf restart APP --strategy rolling`, `cf cleanup-outdated-service-bindings APP`. Until then, apps read " +
	"the data as they were at the old address, and cannot write."

func (p *Provisioner) moveWorkflow(i store.Instance, r request) task.Workflow {
	if i.Other == nil { // cannot be: it is recorded with the task
		return task.Workflow{Steps: []task.Step{{Name: "look", Progress: "Looking for the destination",
			Do: func(context.Context, *task.Run) error { return errors.New("no destination is recorded") }}}}
	}
	m := p.newMove(i, r.PlanID)
	w := task.Workflow{
		Durable: true,
		Advice:  moveAdvice,
		Succeeded: func(tx *store.Tx, _ task.Memory) {
			tx.SwapPlaces(i.ID)
			tx.SetInstancePlan(i.ID, r.PlanID, r.MaintenanceVersion)
			if r.KeepDeletedDays.Named {
				tx.SetKeepDeletedDays(i.ID, r.KeepDeletedDays.N)
			}
			tx.SetEvents(i.ID, p.plans.Get(r.PlanID).Events)
			if i.OverSince != nil {
				tx.SetOver(i.ID, false) // the next round of the quota guard finds out
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
		Do: p.withRoom(m.to, true, p.inSession(m.to, instanceLock(i.ID),
			func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
				return s.CreateDatabase(ctx, i.Database, "", "")
			}))}
	if m.to.Location.Dedicated() {
		w.Steps = []task.Step{p.launch(m.to), createDatabase, {Name: "check login", Progress: "Checking the first login",
			Do: p.inSession(m.to, instanceLock(i.ID), func(ctx context.Context, run *task.Run, s *mysqladmin.Session) error {
				err := p.fleet.CheckLogin(ctx, m.to.Location, i.Database, newPassword(), s)
				return cmp.Or(p.noRoom(ctx, run, m.to, true, err), notUnreachable(err))
			})}}
	} else {
		w.Steps = []task.Step{createDatabase}
	}
	w.Steps = append(w.Steps,
		task.Step{Name: "copy", Progress: "Copying the data", Timeout: fillTimeout, Do: p.inTurn(m.copyRows)},
		task.Step{Name: "freeze", Progress: "Waiting for the last writes", Timeout: accountsTimeout, Do: m.freeze},
		task.Step{Name: "compare", Progress: "Comparing the data", Timeout: frozenTime, Do: m.whileFrozen(m.compare)},
		task.Step{Name: "hand over", Progress: "Handing the data over", Do: m.handOver})
	w.Cleanup = m.cleanup()
	return w
}

// copyRows copies the rows while applications write. A prepared XA transaction that keeps a table locked may do so for
// long, and the copy could wait for it in vain.
func (m move) copyRows(ctx context.Context, run *task.Run) error {
	err := m.inSession(m.from, instanceLock(m.from.ID),
		func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
			blocked, err := s.BlockedByXA(ctx, m.from.Database)
			if err != nil || !blocked {
				return err
			}
			return awaitLocks(run, xaPause, errors.New("a transaction keeps a table locked, and some are prepared by XA"))
		})(ctx, run)
	if err != nil {
		return err
	}
	return m.filling(true).fill(ctx, run)
}

// freeze takes the privileges to write from all accounts of the instance, also from those in whose names programs run.
func (m move) freeze(ctx context.Context, run *task.Run) error {
	since := time.Now()
	if found, err := run.Recall(frozenSince, &since); err != nil || !found {
		if err := errors.Join(err, run.Remember(frozenSince, since), run.Save(ctx)); err != nil {
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
	writing := slices.DeleteFunc(accounts, func(a store.BindingAccount) bool { return roleOf(a) == plan.ReadOnly })
	return m.freezeAccounts(ctx, run, m.from, writing)
}

// writers lists the accounts of the instance, without those of the copy.
func (m move) writers(ctx context.Context) (all []store.BindingAccount, err error) {
	accounts, err := m.store.Accounts(ctx, m.from.ID)
	if err != nil {
		return nil, fmt.Errorf("list the accounts: %w", err)
	}
	f := m.filling(false)
	return without(accounts, f.reader(), f.owner()), nil
}

// without returns the accounts, without those with the given names.
func without(accounts []store.BindingAccount, names ...string) (all []store.BindingAccount) {
	for _, a := range accounts {
		if !slices.Contains(names, a.Account) {
			all = append(all, a)
		}
	}
	return all
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
	var since time.Time
	if _, err := run.Recall(frozenSince, &since); err != nil {
		return err
	}
	if frozen := time.Since(since); frozen > frozenTime {
		return task.Permanent("The data could not be compared in time, and apps can write again. Update the service "+
			"instance again when its MySQL servers are less busy.", fmt.Errorf("apps could not write for %v", frozen))
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
	return m.withRoom(m.to, true, func(ctx context.Context, run *task.Run) error {
		return m.createAccounts(ctx, run, m.to, accounts)
	})(ctx, run)
}

// createAccounts creates the accounts of the bindings of an instance on a server that does not have them, with their
// names and passwords.
func (p *Provisioner) createAccounts(ctx context.Context, run *task.Run, i store.Instance,
	accounts []store.BindingAccount) error {
	of, err := p.plan(i.PlanID)
	if err != nil {
		return err
	}
	address, err := p.fleet.Address(ctx, i)
	if err != nil {
		return fmt.Errorf("read the address of the server: %w", err)
	}
	return p.inSession(i, instanceLock(i.ID), func(ctx context.Context, _ *task.Run, s *mysqladmin.Session) error {
		for _, a := range accounts {
			if a.BindingID == "" {
				continue
			}
			b, err := p.store.Binding(ctx, i.ID, a.BindingID)
			if err != nil {
				return fmt.Errorf("read the binding %q: %w", a.BindingID, err)
			}
			if b.State != store.Ready {
				continue
			}
			if err := s.CreateAccount(ctx, mysqladmin.Account{Name: b.Account, Password: b.Password, Database: i.Database,
				Role: plan.Role(b.Role), MaxConnections: of.MaxConnections, Events: of.Events,
				RequireTLS: plan.TLS(b.TLS) == plan.TLSRequired || b.TLS == "" && address.CACertificate != nil,
				OwnServer:  i.Location.Dedicated()}); err != nil {
				return err
			}
		}
		return nil
	})(ctx, run)
}

// handOver marks the copy as finished, which keeps every cleanup from removing it: the record of the new place may have
// been lost with a PostgreSQL that was restored. So a move that has begun to hand over goes on, however long it takes.
func (m move) handOver(ctx context.Context, run *task.Run) error {
	begun, err := run.Recall(handingOver, new(bool))
	if err != nil {
		return err
	}
	if !begun {
		if err := m.frozenTooLong(run); err != nil {
			return err
		}
		if err := errors.Join(run.Remember(handingOver, true), run.Save(ctx)); err != nil {
			return err
		}
	}
	if err := m.filling(false).finish(ctx, run); err != nil {
		return err
	}
	readOnly, err := m.isReadOnly(ctx, m.from)
	if err == nil && readOnly {
		err = m.setReadOnly(ctx, run, m.to, true)
	}
	if err != nil || m.to.Location.Shared() {
		return err
	}
	return m.fleet.Keep(ctx, m.to.Location)
}

// cleanup gives the privileges to write back, and removes the copy.
func (m move) cleanup() []task.Step {
	steps := []task.Step{{Name: "thaw", Progress: "Giving the write privileges back", Timeout: accountsTimeout,
		Do: m.thaw}}
	steps = append(steps, m.filling(false).cleanup()...)
	if m.to.Location.Dedicated() {
		steps = append(steps, m.destroyUnused(m.to))
	} else {
		steps = append(steps, task.Step{Name: "drop accounts", Progress: "Dropping the accounts", Timeout: accountsTimeout,
			Do: func(ctx context.Context, run *task.Run) error { return m.dropAccounts(ctx, run) }})
	}
	return append(steps, task.Step{Name: "forget owner", Progress: "Forgetting the owner",
		Do: func(ctx context.Context, run *task.Run) error {
			return m.store.ForgetCopyAccount(ctx, leaseOf(run.Task), m.filling(false).owner())
		}})
}

func (m move) thaw(ctx context.Context, run *task.Run) error {
	if found, err := run.Recall(frozenSince, new(time.Time)); err != nil || !found {
		return err
	}
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	current, err := m.store.Instance(ctx, m.from.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	return m.thawAccounts(ctx, run, m.from, accounts, current.OverSince != nil)
}

// dropAccounts drops the accounts of the bindings at the destination.
func (m move) dropAccounts(ctx context.Context, run *task.Run) error {
	accounts, err := m.writers(ctx)
	if err != nil {
		return err
	}
	return m.eachAccount(ctx, run, m.to, accounts,
		func(ctx context.Context, s *mysqladmin.Session, account string) error {
			return s.DropAccount(ctx, account)
		})
}

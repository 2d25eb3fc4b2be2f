package recovery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// site is a mysqld with the records about it, including those of the instances that the plan adopts.
type site struct {
	server    string // the shared server's name or the dedicated server's id
	holds     inventory.Holdings
	instances map[string]store.RecordedInstance // by database
	recorded  []store.RecordedAccount
	retained  map[string]formerInstance // what deleted instances have left, by database
}

func (s site) has(database string) bool { return slices.Contains(s.holds.Databases, database) }

// compareAccounts finds bindings that were ended since the backup, accounts without a record, and accounts with the
// wrong privileges.
func (r *recovery) compareAccounts(s site) {
	for database, i := range s.instances {
		s.instances[database] = r.distrust(s, i)
		r.whole[i.ID] = s.has(database) && !r.places.unfinished(i)
	}
	known, strays := s.holds.CompareAccounts(slices.Collect(maps.Values(s.instances)), s.recorded)
	for _, a := range known {
		if a.CreatedAt.Before(r.before) {
			r.compareAccount(s, a)
		}
	}
	seen := map[string]bool{}
	for _, a := range strays {
		if seen[a.Account] {
			continue
		}
		seen[a.Account] = true
		r.add(Item{Action: Shut, Kind: store.AccountResource, Server: s.server, Name: a.Account, InstanceID: a.Instance.ID,
			Why: "it may use the instance's database, and no binding has it: it was created after the backup",
			do:  func(ctx context.Context) error { return r.shut(ctx, a.Instance, a.Account) }})
	}
}

func (r *recovery) compareAccount(s site, of inventory.Account) {
	i, a := of.Instance, of.RecordedAccount
	add := func(action Action, why string, do func(context.Context) error) {
		r.add(Item{Action: action, Kind: "binding", Server: s.server, Name: a.Account, InstanceID: a.InstanceID,
			BindingID: a.BindingID, Why: why, do: do})
	}
	forget := func(kept bool) func(context.Context) error {
		return func(ctx context.Context) error { return r.forgetBinding(ctx, a, kept) }
	}
	end := func(ctx context.Context) error { return r.endBinding(ctx, i, a) }
	switch {
	case a.BindingID == "" && !of.There:
		return
	case a.BindingID == "":
	case !of.There:
		add(Forget, "its account is gone: the binding was deleted after the backup", forget(false))
		return
	case slices.Contains(s.holds.Locked, a.Account):
		add(Forget, "its account is locked: the binding was deleted after the backup", forget(true))
		return
	case a.State == store.Ending:
		add(Shut, "the binding was being deleted when the backup was made", end)
		return
	case a.Expired:
		add(Shut, "the binding has expired since the backup was made", end)
		return
	case a.State == store.Creating:
		add(Adopt, "the binding was being created when the backup was made, and its account exists",
			r.changing(a.InstanceID, func(tx *store.Tx) {
				tx.SetBindingState(a.InstanceID, a.BindingID, store.Ready)
				r.endTasksOf(tx, a.InstanceID, a.BindingID, store.Bind)
			}))
	}
	if a.BindingID != "" {
		r.usable = append(r.usable, of)
	}
	g := of.Grant
	if g != nil && !a.GrantsDue && !i.Frozen && (!g.Known() || !g.Fits(plan.Role(a.Role), i.OverSince != nil)) {
		r.add(Item{Action: Settle, Kind: store.AccountResource, Server: s.server, Name: a.Account, InstanceID: i.ID,
			BindingID: a.BindingID, Why: "it may have other privileges than its role and the instance's quota ask for",
			do: r.writing(func(tx *store.Tx) { tx.MarkDue(a.Account) })})
	}
}

// shut locks an account and records it, so that it is dropped with its instance.
func (r *recovery) shut(ctx context.Context, i store.RecordedInstance, account string) error {
	err := r.onServer(ctx, i, "account "+account, func(s *mysqladmin.Session) error {
		return s.Accounts.Lock(ctx, account)
	})
	if err != nil {
		return err
	}
	return r.changing(i.ID, func(tx *store.Tx) { tx.AdoptAccount(i.ID, account) })(ctx)
}

// endBinding completes an unbind that was in progress when the backup was made.
func (r *recovery) endBinding(ctx context.Context, i store.RecordedInstance, a store.RecordedAccount) error {
	kept := false
	err := r.onServer(ctx, i, "account "+a.Account, func(s *mysqladmin.Session) (err error) {
		kept, err = s.Accounts.Revoke(ctx, a.Account, i.Database)
		return err
	})
	if err != nil {
		return err
	}
	return r.forgetBinding(ctx, a, kept)
}

// forgetBinding deletes the record of a binding. If kept is true, its account still exists, locked, and is recorded as
// retired.
func (r *recovery) forgetBinding(ctx context.Context, a store.RecordedAccount, kept bool) error {
	err := r.changing(a.InstanceID, func(tx *store.Tx) {
		if kept {
			tx.RecordRetiredAccount(a.InstanceID, a.Account)
		}
		if a.Expired {
			tx.RecordExpired(a.InstanceID, a.BindingID)
		}
		tx.DeleteBinding(a.InstanceID, a.BindingID)
		r.endTasksOf(tx, a.InstanceID, a.BindingID, store.Unbind)
	})(ctx)
	if errors.Is(err, store.ErrNotFound) { // with its instance
		return nil
	}
	return err
}

// endTasksOf ends the tasks of a binding, or of an instance with all its bindings (""), that were in progress. Those
// of the kind succeeded succeed, the others fail.
func (r *recovery) endTasksOf(tx *store.Tx, instanceID, bindingID, succeeded string) {
	for _, t := range r.tasks {
		switch {
		case t.InstanceID != instanceID || bindingID != "" && t.BindingID != bindingID:
		case t.Kind == succeeded:
			tx.EndTask(t.ID, store.Succeeded, "")
		default:
			tx.EndTask(t.ID, store.Failed, restored)
		}
	}
}

// onServer runs fn in a session with its own session lock on an instance's server, unless the instance is recorded at
// another place than where the plan has found it.
func (r *recovery) onServer(ctx context.Context, at store.RecordedInstance, what string,
	fn func(*mysqladmin.Session) error) error {
	ctx, cancel := context.WithTimeout(ctx, doTime)
	defer cancel()
	i, err := r.Store.Instances.Get(ctx, at.ID)
	if err != nil {
		return fmt.Errorf("read the instance: %w", err)
	}
	if i.Location != at.Location {
		return fmt.Errorf("the instance is recorded at %q, and this is for %q", i.Location.Server, at.Server)
	}
	alive := func() error { return nil } // no lease is needed: PostgreSQL is held, so that nobody else changes it
	return r.Fleet.AsAdmin(ctx, i, func(admin *mysqladmin.Server) error {
		session, err := admin.Lock(ctx, "recover "+what, alive)
		if err != nil {
			return fmt.Errorf("take the session lock: %w", err)
		}
		return errors.Join(fn(session), session.Close())
	})
}

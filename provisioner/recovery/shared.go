package recovery

import (
	"context"
	"fmt"
	"slices"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

func (r *recovery) compareShared(ctx context.Context, name string) error {
	server, err := r.Fleet.Shared.Server(name)
	if err != nil {
		return err
	}
	record := r.records[name]
	if record.err != nil {
		return record.err
	}
	r.plan.known = max(r.plan.known, record.TaskID)
	s := site{server: name, instances: map[string]store.RecordedInstance{}}
	if s.holds, err = inventory.Read(ctx, server.Server); err != nil {
		return err
	}
	instances, err := r.Store.Recovery.Instances(ctx, name)
	if err == nil {
		s.recorded, err = r.Store.Recovery.Accounts(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("read what is recorded of the server: %w", err)
	}
	if s.retained, err = r.retained(ctx, name); err != nil {
		return err
	}
	for _, c := range record.Instances { // those that were moved here after the backup are recorded elsewhere
		if l, moved := r.places.moved(r.places.recorded[c.ID]); moved && l.at == store.SharedLocation(name) {
			accounts, err := r.Store.Recovery.AccountsOf(ctx, c.ID)
			if err != nil {
				return fmt.Errorf("read the accounts of instance %q: %w", c.ID, err)
			}
			s.recorded = append(s.recorded, accounts...)
		}
	}
	r.compareSite(s, instances, record.Record)
	return nil
}

// compareSite compares what a shared server holds with the recorded instances and with the server's own record.
func (r *recovery) compareSite(s site, instances []store.RecordedInstance, record mark.Record) {
	listed := map[string]store.InstanceCopy{}
	for _, c := range record.Instances {
		listed[c.Database] = c
	}
	ids := map[string]bool{}
	for _, i := range instances {
		if _, moved := r.places.moved(i); moved {
			continue
		}
		if s.has(i.Database) {
			if c := listed[i.Database]; r.deletedSince(i, c) {
				r.retain(c, store.SharedLocation(s.server), true)
				s.retained[i.Database] = former(c)
				continue
			} else if r.replaced(i, c) {
				r.replace(i)
				continue
			}
			s.instances[i.Database] = i
			ids[i.ID] = true
			continue
		}
		if i.CreatedAt.Before(r.before) && !r.forget(i, s, record.Found) {
			ids[i.ID] = true
		}
	}
	r.adoptListed(record.Instances, s, ids)
	r.compareAccounts(s)
	r.lookForStrangers(s, record)
	r.lookForUsers(s)
}

// forget adds an item that deletes the record of an instance without a database, and drops its remaining accounts. If
// the server has no mark of this broker, the item leaves that to an operator: a new server may have taken the place of
// the right one.
func (r *recovery) forget(i store.RecordedInstance, s site, marked bool) bool {
	var left []string
	for _, a := range s.recorded {
		if a.InstanceID == i.ID && slices.Contains(s.holds.Accounts, a.Account) {
			left = append(left, a.Account)
		}
	}
	return r.forgetUnless(i, marked, "its database is missing, and the server has no mark of this broker: check that it "+
		"is the right one, or restore the database there", Item{Action: Forget, Kind: "instance", Server: s.server,
		Name: i.Database, InstanceID: i.ID, Why: "its database is gone: it was deleted after the backup",
		do: func(ctx context.Context) error {
			for _, account := range left {
				if err := r.onServer(ctx, i, "account "+account, func(s *mysqladmin.Session) error {
					return s.Accounts.Drop(ctx, account)
				}); err != nil {
					return err
				}
			}
			return r.forgetInstance(ctx, i.ID)
		}})
}

// forgetUnless adds an item that forgets an instance, or leaves that to an operator, and reports which: unmarked says
// why if nothing there has a mark of this broker.
func (r *recovery) forgetUnless(i store.RecordedInstance, marked bool, unmarked string, item Item) bool {
	why := unmarked
	if marked {
		why = r.notForgotten(i)
	}
	if why == "" {
		r.gone[i.ID] = true
	} else {
		item.Action, item.Why, item.do = Look, why, nil
	}
	r.add(item)
	return why == ""
}

// notForgotten says why the record of an instance stays, although its database or server is gone: its data may be in
// another place.
func (r *recovery) notForgotten(i store.RecordedInstance) string {
	at, found := r.places.elsewhere(i)
	switch {
	case found:
		return fmt.Sprintf("its data is gone here, and %s has a database of its name, which nothing records: if the "+
			"platform has the instance, restore a backup: mysql-broker backups import, mysql-broker backups %s, "+
			"mysql-broker backups restore --yes --lost BACKUP %[2]s; else delete it", at.Server, i.ID)
	case r.places.partly():
		return fmt.Sprintf("its data is gone here: it was deleted after the backup, or moved to a server that was not "+
			"asked. Run this again when that server answers. If it is lost, and the platform has the instance: "+
			"mysql-broker backups import, mysql-broker backups restore --yes --lost BACKUP %s; else delete it", i.ID)
	}
	return ""
}

// adoptListed adds items that record the instances in the server's list whose databases exist.
func (r *recovery) adoptListed(listed []store.InstanceCopy, s site, ids map[string]bool) {
	here := store.SharedLocation(s.server)
	for _, c := range listed {
		if i, recorded := s.instances[c.Database]; recorded {
			s.instances[c.Database] = r.learn(i, c, s.server)
			continue
		}
		if l, moved := r.places.moved(r.places.recorded[c.ID]); moved && l.at == here && s.has(c.Database) {
			s.instances[c.Database] = r.adoptPlace(r.places.recorded[c.ID], l)
			continue
		}
		left, retained := s.retained[c.Database]
		if c.Retained == nil && r.places.other(c, here) {
			if retained && !left.listedBefore(c) { // it was taken back, and moved away
				delete(s.retained, c.Database)
			}
			r.adoptFormer(c, here)
			continue
		}
		if !s.has(c.Database) || retained && (c.Retained != nil || left.listedBefore(c)) {
			continue
		}
		if c.Retained != nil {
			r.retain(c, here, false)
			s.retained[c.Database] = former(c)
			continue
		}
		delete(s.retained, c.Database)
		item := Item{Action: Adopt, Kind: "instance", Server: s.server, Name: c.Database, InstanceID: c.ID,
			Why: "it was created after the backup"}
		if ids[c.ID] || r.places.keeps(r.places.recorded[c.ID]) {
			item.Action, item.Why = Look, "it was created after the backup, and another one with the same id is recorded"
			r.add(item)
			continue
		}
		item.do = r.writing(func(tx *store.Tx) { tx.Adopt(c, here) })
		r.add(item)
		s.instances[c.Database] = store.RecordedInstance{ID: c.ID, State: store.Ready, PlanID: c.PlanID, Location: here,
			Database: c.Database, CreatedAt: c.CreatedAt}
	}
}

// learn adds items that record what has changed of an instance after the backup: its plan, or that it was frozen. It
// returns the instance as it is then.
func (r *recovery) learn(i store.RecordedInstance, c store.InstanceCopy, server string) store.RecordedInstance {
	learned := func(kind, why string, fn func(*store.Tx)) {
		r.add(Item{Action: Adopt, Kind: kind, Server: server, Name: i.Database, InstanceID: i.ID, Why: why,
			do: r.changing(i.ID, fn)})
	}
	if i.ID != c.ID {
		return i
	}
	if i.PlanID != c.PlanID {
		learned("plan", "it was changed to another plan after the backup", func(tx *store.Tx) {
			tx.SetInstancePlan(i.ID, c.PlanID, c.MaintenanceVersion)
		})
		i.PlanID = c.PlanID
	}
	if !i.Frozen && c.FrozenSince != nil {
		why := "a restore failed after the backup, and its data may be a mixture" + restoreOne(i.ID)
		learned(freezeKind, why, func(tx *store.Tx) { tx.Freeze(i.ID, *c.FrozenSince) })
		i.Frozen, i.Busy = true, true
	}
	return i
}

// lookForStrangers adds items for databases that may be this broker's and are not in the server's list.
func (r *recovery) lookForStrangers(s site, record mark.Record) {
	here, others := store.SharedLocation(s.server), map[string]bool{}
	for _, o := range r.places.others {
		others[o.Database] = others[o.Database] || o.Location == here
	}
	for _, c := range record.Instances {
		others[c.Database] = others[c.Database] || r.places.other(c, here)
	}
	for _, name := range s.holds.Databases {
		_, own := s.instances[name]
		if _, retained := s.retained[name]; own || retained || others[name] || !record.Found ||
			!inventory.Ours(store.DatabaseResource, name) {
			continue
		}
		why := unrecorded
		if there, found := r.places.exists[placedAt(here, name)]; found && !there.complete {
			why = "a task had begun to fill it, and did not finish: drop it once the instances are as they should be"
		}
		r.add(Item{Action: Look, Kind: store.DatabaseResource, Server: s.server, Name: name, Why: why})
	}
}

package recovery

import (
	"context"
	"fmt"

	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/plan"
	"mysql-broker/store"
)

// freezeKind is the kind of items that freeze an instance. They run after all others that adopt something.
const freezeKind = "freeze"

// restoreOne says how an instance that was frozen gets its write privileges back.
func restoreOne(id string) string {
	return fmt.Sprintf(". Apps can only read them until a restore has succeeded: mysql-broker backups import, "+
		"mysql-broker backups %[1]s, mysql-broker backups restore BACKUP %[1]s", id)
}

// distrust adds an item that freezes an instance if its data may not be what applications wrote last, and returns the
// instance as it is then.
func (r *recovery) distrust(s site, i store.RecordedInstance) store.RecordedInstance {
	backup, mixed := s.holds.Mixed[i.Database]
	_, found, sure := r.places.latest(i.ID)
	why := ""
	switch {
	case i.Frozen || !s.has(i.Database):
		return i
	case mixed:
		why = fmt.Sprintf("a restore was replacing its data when the broker ended: it may be a mixture. Apps can only "+
			"read them until a restore has succeeded: mysql-broker backups import, mysql-broker backups restore %s %s",
			backup, i.ID)
	case found && !sure:
		why = "its data is in two places, and nothing records which was written last: compare them" + restoreOne(i.ID)
	case i.State == store.Ready && r.places.unfinished(i):
		why = "its data was being moved here, and the place where it was is not known" + restoreOne(i.ID)
	case r.places.partly() && s.frozen(i):
		why = "its data was being moved or restored, maybe to a server that was not asked" + restoreOne(i.ID)
	default:
		return i
	}
	r.freeze(s, i, why)
	i.Frozen, i.Busy = true, true
	return i
}

// frozen reports whether all accounts of an instance that may write by their role can only read.
func (s site) frozen(i store.RecordedInstance) bool {
	known, _ := s.holds.CompareAccounts([]store.RecordedInstance{i}, s.recorded)
	writers := 0
	for _, a := range known {
		if a.BindingID == "" || !a.There || a.Grant == nil || plan.Role(a.Role) == plan.ReadOnly {
			continue
		}
		if !a.Grant.Frozen() {
			return false
		}
		writers++
	}
	return writers > 0
}

// freeze adds an item that takes the write privileges from the accounts of an instance, and records that.
func (r *recovery) freeze(s site, i store.RecordedInstance, why string) {
	known, _ := s.holds.CompareAccounts([]store.RecordedInstance{i}, s.recorded)
	r.add(Item{Action: Adopt, Kind: freezeKind, Server: s.server, Name: i.Database, InstanceID: i.ID, Why: why,
		do: func(ctx context.Context) error {
			for _, a := range known {
				if !a.There {
					continue
				}
				err := r.onServer(ctx, i, "freeze "+a.Account, func(s *mysqladmin.Session) error {
					if err := s.Writes.Freeze(ctx, a.Account, plan.Role(a.Role), true, i.Database); err != nil {
						return err
					}
					_, err := s.Writes.End(ctx, map[string]bool{a.Account: true})
					return err
				})
				if err != nil {
					return err
				}
			}
			return r.changing(i.ID, func(tx *store.Tx) { tx.Freeze(i.ID, r.before) })(ctx)
		}})
}

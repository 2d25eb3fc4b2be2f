package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"mysql-broker/store"
)

// formerInstance is the deleted instance that has left something.
type formerInstance struct {
	id      string
	deleted time.Time
}

func former(c store.InstanceCopy) formerInstance { return formerInstance{c.ID, c.Retained.DeletedAt} }

// listedBefore reports whether a copy of a living instance is older than its deletion. Otherwise an instance, maybe of
// the same id, has got the data since.
func (f formerInstance) listedBefore(c store.InstanceCopy) bool {
	return c.ID == f.id && !c.CreatedAt.After(f.deleted)
}

// retained reads what deleted instances have left on a shared server, by database, or as dedicated servers (""), by
// their ids.
func (r *recovery) retained(ctx context.Context, server string) (map[string]formerInstance, error) {
	all, err := r.Store.Retained.At(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("read what deleted instances have left: %w", err)
	}
	found := map[string]formerInstance{}
	for _, left := range all {
		if left.AdoptedBy != "" { // the records of that instance count
			r.undeleting[left.AdoptedBy] = left.InstanceID
			continue
		}
		name := left.Database
		if left.Location.Dedicated() {
			name = left.Location.Server
		}
		found[name] = formerInstance{left.InstanceID, left.DeletedAt}
	}
	return found, nil
}

// deletedSince reports whether the copy says that a recorded instance was deleted and its data is retained.
func (r *recovery) deletedSince(i store.RecordedInstance, c store.InstanceCopy) bool {
	return c.Retained != nil && c.ID == i.ID && i.CreatedAt.Before(r.before) && i.CreatedAt.Before(c.Retained.DeletedAt)
}

// replaced reports whether the copy says that a recorded instance was deleted, and that another one got its data.
func (r *recovery) replaced(i store.RecordedInstance, c store.InstanceCopy) bool {
	return c.ID != "" && c.ID != i.ID && c.Retained == nil && i.CreatedAt.Before(r.before) &&
		c.CreatedAt.After(i.CreatedAt)
}

// replace adds an item that deletes the record of an instance whose data another one has got.
func (r *recovery) replace(i store.RecordedInstance) {
	r.gone[i.ID] = true
	r.add(Item{Action: Forget, Kind: "instance", Server: i.Location.Server, Name: i.Database, InstanceID: i.ID,
		Why: "it was deleted after the backup, and another instance was created with its data",
		do:  func(ctx context.Context) error { return r.forgetInstance(ctx, i.ID) }})
}

// retain adds an item that records what a deleted instance has left. The record of the instance, if there is one, is
// deleted.
func (r *recovery) retain(c store.InstanceCopy, at store.Location, recorded bool) {
	if recorded {
		r.gone[c.ID] = true
	}
	name := c.Database
	if at.Dedicated() {
		name = at.Server
	}
	r.add(Item{Action: Adopt, Kind: "retained data", Server: at.Server, Name: name, InstanceID: c.ID,
		Why: "the instance was deleted after the backup, and its data is kept", do: func(ctx context.Context) error {
			return r.Store.InTx(ctx, func(tx *store.Tx) error {
				if recorded {
					if _, err := tx.LockInstance(ctx, c.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
						return err
					}
					r.endTasksOf(tx, c.ID, "", store.Deprovision)
				}
				tx.RetainCopy(c, at)
				return nil
			})
		}})
}

// undeleted reports whether the instance of a task was getting retained data when the backup was made, and has got it
// since: it has a database, and its server lists it as one that is ready.
func (r *recovery) undeleted(t store.Task) bool {
	_, undeleting := r.undeleting[t.InstanceID]
	i := r.places.recorded[t.InstanceID]
	return undeleting && t.Phase != store.Cleanup && r.whole[i.ID] &&
		slices.ContainsFunc(r.places.listed[i.ID], func(l listing) bool {
			return l.at == i.Location && l.copy.CreatedAt.Equal(i.CreatedAt)
		})
}

// undeleteOf says of a provision that was to undelete something what becomes of that, "" of other tasks.
func (r *recovery) undeleteOf(t store.Task) string {
	from, undeleting := r.undeleting[t.InstanceID]
	switch {
	case t.Kind != store.Provision || !undeleting:
		return ""
	case r.undeleted(t):
		return fmt.Sprintf(": the instance has got what the deleted instance %s had left", from)
	}
	return fmt.Sprintf(": it was taking back what the deleted instance %s has left, and nothing records how that ended. "+
		"The data stays, with all that applications have written since. The platform may know the instance: delete it, and "+
		"create one with undelete, within a day", from)
}

// lookForUsers adds items for accounts that can use a retained database: an instance has got it since the last copies
// were made.
func (r *recovery) lookForUsers(s site) {
	for _, g := range s.holds.Grants {
		if _, retained := s.retained[g.Database]; !retained || slices.Contains(s.holds.Locked, g.Account) {
			continue
		}
		r.add(Item{Action: Look, Kind: store.AccountResource, Server: s.server, Name: g.Account,
			InstanceID: s.retained[g.Database].id,
			Why: "it can use the data of a deleted instance, which came back less than a minute before the end: the platform " +
				"knows the instance; delete that one, and create one with undelete, within a day"})
	}
}

package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner"
	"mysql-broker/provisioner/dedicated"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

func (r *recovery) compareDedicated(ctx context.Context) error {
	if r.Dedicated == nil {
		return dedicated.ErrNoLauncher
	}
	told, err := mark.OfDedicated(ctx, r.Dedicated, r.identity)
	if err != nil {
		return err
	}
	r.plan.known = max(r.plan.known, told.TaskID)
	there, err := r.Dedicated.List(ctx)
	if err != nil {
		return err
	}
	instances, err := r.Store.RecordedInstances(ctx, "")
	if err != nil {
		return fmt.Errorf("read the instances on dedicated servers: %w", err)
	}
	recorded, err := r.Store.RecordedAccounts(ctx, "")
	if err != nil {
		return fmt.Errorf("read the accounts on dedicated servers: %w", err)
	}
	copies := map[string]store.InstanceCopy{} // by the server's id
	for _, c := range told.Instances {
		copies[c.DedicatedID] = c
	}
	ids, owned := map[string]bool{}, map[string]bool{}
	for _, i := range instances {
		owned[i.DedicatedID] = true
		if !slices.Contains(there, i.DedicatedID) {
			if i.CreatedAt.Before(r.before) {
				r.forgetServer(i, told.Found)
			}
			continue
		}
		ids[i.ID] = true
		if !slices.Contains(r.Without, i.DedicatedID) && i.CreatedAt.Before(r.before) {
			r.compareServer(ctx, i, copies[i.DedicatedID], recorded)
		}
	}
	for _, id := range there {
		if owned[id] {
			continue
		}
		r.adoptServer(ctx, id, copies[id], ids)
	}
	return nil
}

func (r *recovery) forgetServer(i store.RecordedInstance, told bool) {
	item := Item{Action: Forget, Kind: "instance", Server: i.DedicatedID, Name: i.DedicatedID, InstanceID: i.ID,
		Why: "its server is gone: it was deleted since the backup"}
	if !told {
		item.Action, item.Why = Look, "its server is not there, and the launcher's directory was never told of this broker: "+
			"see whether it is the right one"
		r.add(item)
		return
	}
	r.gone[i.ID] = true
	item.do = func(ctx context.Context) error { return r.forgetInstance(ctx, i.ID) }
	r.add(item)
}

// compareServer compares a server with the records of its instance.
func (r *recovery) compareServer(ctx context.Context, i store.RecordedInstance, c store.InstanceCopy,
	recorded []store.RecordedAccount) {
	whole, err := r.Store.Instance(ctx, i.ID)
	if err != nil {
		r.silent(i.DedicatedID, i.ID, err)
		return
	}
	s := site{server: i.DedicatedID, instances: map[string]store.RecordedInstance{i.Database: i}, recorded: recorded}
	err = provisioner.AsAdmin(ctx, r.Store, r.Shared, r.Dedicated, whole, func(admin *mysqladmin.Server) (err error) {
		s.holds, err = hold(ctx, admin)
		return err
	})
	if mysqladmin.AccessDenied(err) && c.ID == i.ID {
		if s.holds, err = r.holdWith(ctx, c); err == nil {
			r.add(Item{Action: Adopt, Kind: "admin password", Server: i.DedicatedID, InstanceID: i.ID,
				Why: "it was changed since the backup", do: func(ctx context.Context) error {
					return r.Store.InTx(ctx, func(tx *store.Tx) error {
						if _, err := tx.LockInstance(ctx, i.ID); err != nil {
							return err
						}
						tx.AdoptAdminPassword(c)
						return nil
					})
				}})
		}
	}
	if err != nil {
		if i.State == store.Ready {
			r.silent(i.DedicatedID, i.ID, err)
		}
		return
	}
	if c.ID != "" {
		r.learnPlan(i, c, i.DedicatedID)
	}
	r.compareAccounts(s)
}

func (r *recovery) silent(server, instanceID string, err error) {
	r.add(Item{Action: Look, Kind: store.DedicatedResource, Server: server, Name: server, InstanceID: instanceID,
		Why:    fmt.Sprintf("it cannot be asked what it holds; start it, or leave it out with --without if lost: %v", err),
		blocks: true})
}

// holdWith asks a server with the passwords of a copy.
func (r *recovery) holdWith(ctx context.Context, c store.InstanceCopy) (h holdings, err error) {
	admin, next, err := r.Store.Passwords(c)
	if err != nil {
		return h, err
	}
	for _, password := range []string{admin, next} {
		if password == "" {
			continue
		}
		if h, err = r.holdAs(ctx, c.DedicatedID, password); !mysqladmin.AccessDenied(err) {
			break
		}
	}
	return h, err
}

func (r *recovery) holdAs(ctx context.Context, id, password string) (h holdings, err error) {
	server, err := r.Dedicated.Open(ctx, id, password)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return hold(ctx, server)
}

// adoptServer records the instance of a server that is there, if the launcher's directory was told of it.
func (r *recovery) adoptServer(ctx context.Context, id string, c store.InstanceCopy, ids map[string]bool) {
	item := Item{Action: Adopt, Kind: "instance", Server: id, Name: id, InstanceID: c.ID,
		Why: "it was made since the backup"}
	switch {
	case c.ID == "":
		item.Action, item.Why = Look, "it is another broker's, or was made less than a minute before the end: then the "+
			"platform knows its instance; copy its data into a new one"
		r.add(item)
		return
	case ids[c.ID]:
		item.Action, item.Why = Look, "it was made since the backup, and another one with the same id is recorded"
		r.add(item)
		return
	}
	s := site{server: id, instances: map[string]store.RecordedInstance{c.Database: {ID: c.ID, State: store.Ready,
		DedicatedID: id, Database: c.Database, CreatedAt: c.CreatedAt}}}
	var err error
	if s.holds, err = r.holdWith(ctx, c); err != nil {
		r.silent(id, c.ID, err)
		return
	}
	item.do = func(ctx context.Context) error {
		return r.Store.InTx(ctx, func(tx *store.Tx) error {
			tx.Adopt(c, "")
			return nil
		})
	}
	r.add(item)
	r.compareAccounts(s)
}

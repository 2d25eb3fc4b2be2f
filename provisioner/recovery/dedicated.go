package recovery

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"mysql-broker/provisioner/inventory"
	"mysql-broker/provisioner/mark"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/store"
)

// compareDedicated compares what launchers run with the records of all instances that have a dedicated server.
func (r *recovery) compareDedicated(ctx context.Context) error {
	if r.launched.err != nil {
		return r.launched.err
	}
	listing, marked, copies := r.launched.listing, r.launched.marked, r.launched.copies
	instances, err := r.Store.Recovery.Instances(ctx, store.DedicatedServers)
	if err != nil {
		return fmt.Errorf("read the instances on dedicated servers: %w", err)
	}
	recorded, err := r.Store.Recovery.Accounts(ctx, store.DedicatedServers)
	if err != nil {
		return fmt.Errorf("read the accounts on dedicated servers: %w", err)
	}
	ids, owned := map[string]bool{}, map[store.Location]bool{}
	for _, i := range instances {
		owned[i.Location] = true
		if _, moved := r.places.moved(i); moved {
			continue
		}
		if _, err := r.Fleet.Launcher(i.Launcher); err != nil {
			return err
		}
		if !slices.Contains(listing.There, i.Location) {
			if i.CreatedAt.Before(r.before) {
				r.forgetServer(i, marked[i.Launcher])
			}
			continue
		}
		ids[i.ID] = true
		if c := copies[i.Location]; r.deletedSince(i, c) {
			r.retain(c, i.Location, true)
			delete(ids, i.ID)
			continue
		} else if r.replaced(i, c) {
			r.replace(i)
			delete(ids, i.ID)
			owned[i.Location] = false
			continue
		}
		if !slices.Contains(r.Without, i.Server) && i.CreatedAt.Before(r.before) {
			r.compareServer(ctx, i, copies[i.Location], recorded)
		}
	}
	for _, o := range r.places.others {
		owned[o.Location] = owned[o.Location] || o.Dedicated()
	}
	for _, at := range listing.There {
		c := copies[at]
		i := r.places.recorded[c.ID]
		if l, moved := r.places.moved(i); moved && l.at == at {
			owned[at] = true
			if err := r.compareMoved(ctx, i, l); err != nil {
				return err
			}
		}
		if c.Retained == nil && r.places.other(c, at) {
			owned[at] = true
			r.adoptFormer(c, at)
		}
	}
	retained, err := r.retained(ctx, store.DedicatedServers)
	if err != nil {
		return err
	}
	r.compareUnowned(ctx, listing.There, owned, copies, retained, ids)
	return nil
}

// readLaunchers returns which launchers have a mark, and the copies of instances that they have recorded, by location.
func (r *recovery) readLaunchers(ctx context.Context) (map[string]bool, map[store.Location]store.InstanceCopy, error) {
	marked, copies := map[string]bool{}, map[store.Location]store.InstanceCopy{}
	for _, l := range r.Fleet.Launchers() {
		record, err := mark.ReadDedicated(ctx, l, r.identity)
		if err != nil {
			return nil, nil, err
		}
		r.plan.known = max(r.plan.known, record.TaskID)
		marked[l.Name] = record.Found
		for _, c := range record.Instances {
			copies[store.DedicatedLocation(l.Name, c.DedicatedID)] = c
		}
	}
	return marked, copies, nil
}

// compareUnowned adds items for servers that belong to no recorded instance: retained ones, and ones to adopt. ids are
// the instances whose servers exist.
func (r *recovery) compareUnowned(ctx context.Context, there []store.Location, owned map[store.Location]bool,
	copies map[store.Location]store.InstanceCopy, retained map[string]formerInstance, ids map[string]bool) {
	for _, at := range there {
		c := copies[at]
		left, kept := retained[at.Server]
		switch {
		case owned[at] || kept && (c.ID == "" || c.Retained != nil || left.listedBefore(c)):
		case c.Retained != nil:
			r.retain(c, at, false)
		default:
			r.adoptServer(ctx, at, c, ids)
		}
	}
}

func (r *recovery) forgetServer(i store.RecordedInstance, marked bool) {
	r.forgetUnless(i, marked, "its server is missing, and the launcher's directory has no mark of this broker: check "+
		"that it is the right one", Item{Action: Forget, Kind: "instance", Server: i.Server, Name: i.Server, InstanceID: i.ID,
		Why: "its server is gone: it was deleted after the backup",
		do:  func(ctx context.Context) error { return r.forgetInstance(ctx, i.ID) }})
}

func (r *recovery) compareServer(ctx context.Context, i store.RecordedInstance, c store.InstanceCopy,
	recorded []store.RecordedAccount) {
	whole, err := r.Store.Instances.Get(ctx, i.ID)
	if err != nil {
		r.silent(i.Server, i.ID, err)
		return
	}
	whole.Endpoint = nil // the recorded endpoint may be older than the server's certificate
	s := site{server: i.Server, instances: map[string]store.RecordedInstance{i.Database: i}, recorded: recorded}
	unfinished := false
	err = r.Fleet.AsAdmin(ctx, whole, func(admin *mysqladmin.Server) (err error) {
		if unfinished, err = admin.Unfinished(ctx, i.Database); err == nil {
			s.holds, err = inventory.Read(ctx, admin)
		}
		return err
	})
	if mysqladmin.AccessDenied(err) && c.ID == i.ID {
		if s.holds, err = r.holdWith(ctx, i.Location, c); err == nil {
			r.add(Item{Action: Adopt, Kind: "admin password", Server: i.Server, InstanceID: i.ID,
				Why: "it was changed after the backup",
				do:  r.changing(i.ID, func(tx *store.Tx) { tx.AdoptAdminPassword(c) })})
		}
	}
	if err != nil {
		if i.State == store.Ready {
			r.silent(i.Server, i.ID, err)
		}
		return
	}
	if unfinished {
		r.places.exists[placedOf(i)] = existence{}
	}
	if c.ID != "" {
		s.instances[i.Database] = r.learn(i, c, i.Server)
	}
	r.compareAccounts(s)
}

// compareMoved compares a dedicated server, to which the data of an instance was moved after the backup, with the
// records of the instance.
func (r *recovery) compareMoved(ctx context.Context, i store.RecordedInstance, l listing) (err error) {
	s := site{server: l.at.Server}
	if s.holds, err = r.holdWith(ctx, l.at, l.copy); err != nil {
		r.silent(l.at.Server, i.ID, err)
		return nil
	}
	if s.recorded, err = r.Store.Recovery.AccountsOf(ctx, i.ID); err != nil {
		return fmt.Errorf("read the accounts of instance %q: %w", i.ID, err)
	}
	s.instances = map[string]store.RecordedInstance{i.Database: r.adoptPlace(i, l)}
	r.compareAccounts(s)
	return nil
}

func (r *recovery) silent(server, instanceID string, err error) {
	r.add(Item{Action: Look, Kind: store.DedicatedResource, Server: server, Name: server, InstanceID: instanceID,
		Why: fmt.Sprintf("the broker cannot list what the server holds: start the server, or leave it out with --without "+
			"if it is lost: %v", err),
		blocks: true})
}

// holdWith reads what a dedicated server holds, with the admin passwords of an instance's copy.
func (r *recovery) holdWith(ctx context.Context, at store.Location,
	c store.InstanceCopy) (h inventory.Holdings, err error) {
	admin, next, err := r.Store.Recovery.Passwords(c)
	if err != nil {
		return h, err
	}
	for _, password := range []string{admin, next} {
		if password == "" {
			continue
		}
		if h, err = r.holdAs(ctx, at, password); !mysqladmin.AccessDenied(err) {
			break
		}
	}
	return h, err
}

func (r *recovery) holdAs(ctx context.Context, at store.Location, password string) (h inventory.Holdings, err error) {
	server, err := r.Fleet.Open(ctx, at, password)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	return inventory.Read(ctx, server)
}

// adoptServer adds an item that records the instance of an unrecorded server, if the record beside it has a copy.
func (r *recovery) adoptServer(ctx context.Context, at store.Location, c store.InstanceCopy, ids map[string]bool) {
	item := Item{Action: Adopt, Kind: "instance", Server: at.Server, Name: at.Server, InstanceID: c.ID,
		Why: "it was created after the backup"}
	switch {
	case c.ID == "":
		item.Action, item.Why = Look, unrecorded
		r.add(item)
		return
	case ids[c.ID] || r.places.keeps(r.places.recorded[c.ID]):
		item.Action, item.Why = Look, "it was created after the backup, and another one with the same id is recorded"
		r.add(item)
		return
	}
	s := site{server: at.Server, instances: map[string]store.RecordedInstance{c.Database: {ID: c.ID, State: store.Ready,
		Location: at, Database: c.Database, CreatedAt: c.CreatedAt}}}
	var err error
	if s.holds, err = r.holdWith(ctx, at, c); err != nil {
		r.silent(at.Server, c.ID, err)
		return
	}
	item.do = r.writing(func(tx *store.Tx) { tx.Adopt(c, at) })
	r.add(item)
	r.compareAccounts(s)
}

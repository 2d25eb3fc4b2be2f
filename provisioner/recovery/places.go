package recovery

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mark"
	"mysql-broker/store"
)

// places say where the data of instances is, by what is recorded and by the lists of all servers. Data that is being
// moved, or was, is in two places.
type places struct {
	recorded map[string]store.RecordedInstance
	others   map[string]store.RecordedPlace // by instance
	listed   map[string][]listing           // by instance
	exists   map[placed]existence
	unread   map[string]bool // shared servers, and DedicatedServers, whose contents are not known
}

// listing is the copy of an instance, where it was found.
type listing struct {
	at   store.Location
	copy store.InstanceCopy
}

// placed is a database on a shared server, or a dedicated server ("").
type placed struct {
	at       store.Location
	database string
}

// existence says what is in a place. In the zero value, nothing is.
type existence struct {
	complete bool // false if a task had begun to fill it, and did not finish
	listed   bool // it is known whose it is, or was
}

func newPlaces() places {
	return places{map[string]store.RecordedInstance{}, map[string]store.RecordedPlace{}, map[string][]listing{},
		map[placed]existence{}, map[string]bool{}}
}

// list records that a server has a copy of an instance, whose data is there. A copy that was not finished is none.
func (p places) list(c store.InstanceCopy, at store.Location) {
	of := placedAt(at, c.Database)
	there, found := p.exists[of]
	if !found {
		return
	}
	there.listed = true
	p.exists[of] = there
	if c.Retained == nil && there.complete {
		p.listed[c.ID] = append(p.listed[c.ID], listing{at, c})
	}
}

func movedAt(c store.InstanceCopy) time.Time {
	if c.MovedAt == nil {
		return time.Time{}
	}
	return *c.MovedAt
}

// latest returns where the data of an instance was moved last, by the lists of the servers. What the backup knows as
// the former place is that only if the data was moved back there later, or is no longer where the backup knows it. It
// is not sure if another place may be the right one just as well.
func (p places) latest(id string) (l listing, found, sure bool) {
	i, recorded := p.recorded[id]
	all := slices.Clone(p.listed[id])
	if recorded && p.keeps(i) && !slices.ContainsFunc(all, func(l listing) bool { return l.at == i.Location }) {
		all = append(all, listing{i.Location, store.InstanceCopy{ID: id, Database: i.Database, CreatedAt: i.CreatedAt}})
	}
	for _, next := range all {
		other, has := p.others[id]
		former := has && other.Moved != nil && other.Location == next.at && !movedAt(next.copy).After(*other.Moved)
		if former && !p.gone(i) {
			continue
		}
		switch order := cmp.Or(next.copy.CreatedAt.Compare(l.copy.CreatedAt), movedAt(next.copy).Compare(movedAt(l.copy))); {
		case !found || order > 0:
			l, found, sure = next, true, true
		case order == 0:
			sure = false
			if next.at == i.Location {
				l = next
			}
		}
	}
	return l, found, sure
}

// moved returns the place to which the data of an instance was moved after the backup.
func (p places) moved(i store.RecordedInstance) (l listing, yes bool) {
	l, found, _ := p.latest(i.ID)
	return l, found && l.at != i.Location && l.copy.CreatedAt.Equal(i.CreatedAt)
}

// other reports whether a place is recorded as another one of an instance's, or was one before its data was moved.
func (p places) other(c store.InstanceCopy, at store.Location) bool {
	i, recorded := p.recorded[c.ID]
	l, found, _ := p.latest(c.ID)
	if _, moved := p.moved(i); moved || found && !recorded {
		return l.at != at
	}
	other, has := p.others[c.ID]
	return has && other.Location == at || recorded && i.Location != at && i.CreatedAt.Equal(c.CreatedAt)
}

// keeps reports whether the recorded place of an instance still has its data.
func (p places) keeps(i store.RecordedInstance) bool { return p.exists[placedOf(i)].complete }

// unfinished reports whether a task had begun to fill the recorded place of an instance, and did not finish.
func (p places) unfinished(i store.RecordedInstance) bool {
	there, found := p.exists[placedOf(i)]
	return found && !there.complete
}

// gone reports whether the recorded place of an instance does not have its data any more.
func (p places) gone(i store.RecordedInstance) bool { return !p.unknown(i.Location) && !p.keeps(i) }

// unknown reports whether it is not known what is at a location.
func (p places) unknown(at store.Location) bool {
	if at.Dedicated() {
		return p.unread[store.DedicatedServers]
	}
	return p.unread[at.Server]
}

// elsewhere returns another place that may have the data of an instance, although no list says so.
func (p places) elsewhere(i store.RecordedInstance) (at store.Location, found bool) {
	for of, there := range p.exists {
		if of.database == i.Database && of.at != i.Location && there.complete && !there.listed {
			return of.at, true
		}
	}
	return at, false
}

// partly reports whether it is not known what some server holds.
func (p places) partly() bool {
	return slices.Contains(slices.Collect(maps.Values(p.unread)), true)
}

func placedAt(at store.Location, database string) placed {
	if at.Dedicated() {
		database = ""
	}
	return placed{at, database}
}

func placedOf(i store.RecordedInstance) placed { return placedAt(i.Location, i.Database) }

// locate reads where instances are, and keeps what servers have recorded. The comparison with a server reports why that
// could not be read.
func (r *recovery) locate(ctx context.Context, all, servers []string) error {
	r.places = newPlaces()
	for _, name := range all {
		r.places.unread[name] = !slices.Contains(servers, name)
		instances, err := r.Store.Recovery.Instances(ctx, name)
		if err != nil {
			return fmt.Errorf("read the instances on the server %q: %w", name, err)
		}
		for _, i := range instances {
			r.places.recorded[i.ID] = i
		}
	}
	others, err := r.Store.Recovery.Places(ctx)
	if err != nil {
		return fmt.Errorf("read the other places of instances: %w", err)
	}
	for _, o := range others {
		r.places.others[o.InstanceID] = o
	}
	r.records = map[string]readRecord{}
	for _, name := range servers {
		if name == store.DedicatedServers {
			r.launched = r.locateDedicated(ctx)
			r.places.unread[name] = r.launched.err != nil
		} else {
			record, err := r.locateShared(ctx, name)
			r.records[name] = readRecord{record, err}
			r.places.unread[name] = err != nil
		}
	}
	return ctx.Err()
}

// readRecord is the record of a shared server, or why it could not be read.
type readRecord struct {
	mark.Record
	err error
}

// launched is what launchers run and have recorded, or why that could not be read.
type launched struct {
	listing fleet.Listing
	marked  map[string]bool // the launchers that have a mark
	copies  map[store.Location]store.InstanceCopy
	err     error
}

func (r *recovery) locateShared(ctx context.Context, name string) (record mark.Record, err error) {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	server, err := r.Fleet.Shared.Server(name)
	if err == nil {
		err = server.Ping(ctx)
	}
	if err != nil {
		return record, err
	}
	at := store.SharedLocation(name)
	databases, err := server.Databases(ctx)
	if err != nil {
		return record, err
	}
	unfinished, err := server.UnfinishedDatabases(ctx)
	if err != nil {
		return record, err
	}
	for _, database := range databases {
		r.places.exists[placed{at, database}] = existence{complete: !slices.Contains(unfinished, database)}
	}
	if record, err = mark.ReadShared(ctx, server, r.identity); err != nil {
		return record, err
	}
	for _, c := range record.Instances {
		r.places.list(c, at)
	}
	return record, nil
}

func (r *recovery) locateDedicated(ctx context.Context) (l launched) {
	ctx, cancel := context.WithTimeout(ctx, siteTime)
	defer cancel()
	if l.listing, l.err = r.Fleet.Dedicated(ctx); l.err != nil {
		return l
	}
	if l.marked, l.copies, l.err = r.readLaunchers(ctx); l.err != nil {
		return l
	}
	for _, at := range l.listing.There {
		r.places.exists[placed{at: at}] = existence{complete: true}
		if c, found := l.copies[at]; found {
			r.places.list(c, at)
		}
	}
	l.err = l.listing.Err()
	return l
}

// adoptPlace adds an item that records to where the data of an instance was moved, and returns the instance as it is
// then.
func (r *recovery) adoptPlace(i store.RecordedInstance, l listing) store.RecordedInstance {
	kept := r.kept(i)
	r.add(Item{Action: Adopt, Kind: "place", Server: l.at.Server, Name: i.Database, InstanceID: i.ID,
		Why: "its data was moved here after the backup", do: func(ctx context.Context) error {
			return r.change(ctx, i.ID, func(tx *store.Tx) error { return tx.AdoptPlace(ctx, l.copy, l.at, kept) })
		}})
	i.Location, i.PlanID = l.at, l.copy.PlanID
	return i
}

// kept reports whether something of an instance may be at its recorded place, which the operator does not call lost.
func (r *recovery) kept(i store.RecordedInstance) bool {
	_, there := r.places.exists[placedOf(i)]
	return there || r.places.unknown(i.Location) && !slices.Contains(r.Without, i.Location.Server)
}

// adoptFormer adds an item that records that a place still has the data of an instance as it was before it was moved
// away, so that brokers remove it in time.
func (r *recovery) adoptFormer(c store.InstanceCopy, at store.Location) {
	i := r.places.recorded[c.ID]
	l, found, sure := r.places.latest(c.ID)
	known, has := r.places.others[c.ID]
	if !found || !sure || l.at != i.Location || l.copy.MovedAt == nil || at == i.Location || has && known.Moved == nil {
		return
	}
	// A recorded former place that is not known has been removed: before that, the data could not be moved again.
	if _, there := r.places.exists[placedAt(known.Location, known.Database)]; has && there {
		return
	}
	r.add(Item{Action: Adopt, Kind: "former place", Server: at.Server, Name: c.Database, InstanceID: c.ID,
		Why: "its data was moved away from here after the backup", do: func(ctx context.Context) error {
			return r.change(ctx, c.ID, func(tx *store.Tx) error { return tx.AdoptFormer(ctx, c, at, *l.copy.MovedAt) })
		}})
}

// writing returns an action that runs fn in a transaction.
func (r *recovery) writing(fn func(*store.Tx)) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.Store.InTx(ctx, func(tx *store.Tx) error {
			fn(tx)
			return nil
		})
	}
}

// changing is writing in a transaction that has locked an instance.
func (r *recovery) changing(id string, fn func(*store.Tx)) func(context.Context) error {
	return func(ctx context.Context) error {
		return r.change(ctx, id, func(tx *store.Tx) error {
			fn(tx)
			return nil
		})
	}
}

// change runs fn in a transaction that has locked an instance.
func (r *recovery) change(ctx context.Context, id string, fn func(*store.Tx) error) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.LockInstance(ctx, id); err != nil {
			return err
		}
		return fn(tx)
	})
}

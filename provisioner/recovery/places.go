package recovery

import (
	"context"
	"fmt"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/mark"
	"mysql-broker/store"
)

// places say where the data of instances is, by what is recorded and by the lists of all servers. Data that is being
// moved, or were, are in two places.
type places struct {
	recorded map[string]store.RecordedInstance
	others   map[string]store.RecordedPlace // by instance
	listed   map[string]listing             // the latest place of each instance
	exists   map[placed]bool
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

func newPlaces() places {
	return places{map[string]store.RecordedInstance{}, map[string]store.RecordedPlace{}, map[string]listing{},
		map[placed]bool{}}
}

// list notes that a server has a copy of an instance, whose data is there. Of two places, that is the right one to
// which the data was moved later.
func (p places) list(c store.InstanceCopy, at store.Location) {
	known, found := p.listed[c.ID]
	if c.Retained != nil || found && movedAt(known.copy).After(movedAt(c)) ||
		found && movedAt(known.copy).Equal(movedAt(c)) && at != p.recorded[c.ID].Location {
		return
	}
	p.listed[c.ID] = listing{at, c}
}

func movedAt(c store.InstanceCopy) time.Time {
	if c.MovedAt == nil {
		return time.Time{}
	}
	return *c.MovedAt
}

// moved returns the place to which the data of an instance was moved after the backup. What the backup already knows
// as the former place is not one, unless the data was moved back there later.
func (p places) moved(i store.RecordedInstance) (l listing, yes bool) {
	l, found := p.listed[i.ID]
	other, has := p.others[i.ID]
	former := has && other.Moved != nil && other.Location == l.at && !movedAt(l.copy).After(*other.Moved)
	return l, found && l.at != i.Location && l.copy.CreatedAt.Equal(i.CreatedAt) && !former
}

// other reports whether a place is recorded as another one of an instance's, or was one before its data was moved.
func (p places) other(c store.InstanceCopy, at store.Location) bool {
	i, recorded := p.recorded[c.ID]
	if l, moved := p.moved(i); moved {
		return l.at != at
	}
	other, has := p.others[c.ID]
	return has && other.Location == at || recorded && i.Location != at && i.CreatedAt.Equal(c.CreatedAt)
}

// locate reads where instances are, and keeps what servers have recorded. The comparison with a server reports why that
// could not be read.
func (r *recovery) locate(ctx context.Context, servers []string) error {
	r.places = newPlaces()
	for _, name := range servers {
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
		} else {
			record, err := r.locateShared(ctx, name)
			r.records[name] = readRecord{record, err}
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
	for _, database := range databases {
		r.places.exists[placed{at, database}] = true
	}
	if record, err = mark.ReadShared(ctx, server, r.identity); err != nil {
		return record, err
	}
	for _, c := range record.Instances {
		if r.places.exists[placed{at, c.Database}] {
			r.places.list(c, at)
		}
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
		r.places.exists[placed{at: at}] = true
		if c, found := l.copies[at]; found {
			r.places.list(c, at)
		}
	}
	l.err = l.listing.Err()
	return l
}

// keeps reports whether the recorded place of an instance still exists.
func (p places) keeps(i store.RecordedInstance) bool {
	of := placed{at: i.Location}
	if i.Shared() {
		of.database = i.Database
	}
	return p.exists[of]
}

// adoptPlace adds an item that records to where the data of an instance was moved, and returns the instance as it is
// then.
func (r *recovery) adoptPlace(i store.RecordedInstance, l listing) store.RecordedInstance {
	kept := r.places.keeps(i)
	r.add(Item{Action: Adopt, Kind: "place", Server: l.at.Server, Name: i.Database, InstanceID: i.ID,
		Why: "its data was moved here after the backup", do: func(ctx context.Context) error {
			return r.Store.InTx(ctx, func(tx *store.Tx) error {
				if _, err := tx.LockInstance(ctx, i.ID); err != nil {
					return err
				}
				return tx.AdoptPlace(ctx, l.copy, l.at, kept)
			})
		}})
	i.Location, i.PlanID = l.at, l.copy.PlanID
	return i
}

package mark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"mysql-broker/provisioner/fleet"
	"mysql-broker/provisioner/launcher"
	"mysql-broker/provisioner/mysqladmin"
	"mysql-broker/provisioner/shared"
	"mysql-broker/store"
)

const (
	// overlap is by how much two reads of changes overlap, because some transactions are committed late.
	overlap = time.Minute
	// relistInterval is how often the whole list on a server is rewritten, without instances whose databases are gone.
	relistInterval = 24 * time.Hour
)

// writeShared writes to all shared servers at the same time.
func (k *Keeper) writeShared(ctx context.Context, m store.Mark) {
	var all sync.WaitGroup
	for _, server := range k.Fleet.Shared.All() {
		all.Go(func() {
			k.report(ctx, server.Name(), k.writeServer(ctx, server, m))
		})
	}
	all.Wait()
}

// writeServer first compares the old mark with PostgreSQL, to detect a restore while brokers run. Then it writes the
// mark and the list of instances.
func (k *Keeper) writeServer(ctx context.Context, server *shared.Server, m store.Mark) error {
	if err := server.Ping(ctx); err != nil {
		return err
	}
	before, _, err := server.Marks.ReadMark(ctx, k.identity)
	if err == nil {
		err = k.compare(ctx, "the shared server "+server.Name(), before.TaskID, before.TaskAt)
	}
	if err != nil {
		return err
	}
	now, err := k.Store.Clock(ctx)
	if err != nil {
		return err
	}
	next := mysqladmin.Mark{TaskID: m.TaskID, TaskAt: m.TaskAt, ListedAt: before.ListedAt}
	if err := server.Marks.WriteMark(ctx, k.identity, next); err != nil { // before the list, which may be long
		return err
	}
	if err := k.list(ctx, server, before.ListedAt, now); err != nil {
		return err
	}
	next.ListedAt = now
	return server.Marks.WriteMark(ctx, k.identity, next)
}

// list writes to a server the instances that were created or changed since the last time, or all instances.
func (k *Keeper) list(ctx context.Context, server *shared.Server, last, now time.Time) error {
	write := func(all []store.InstanceCopy) error {
		listed := make([]mysqladmin.ListedInstance, len(all))
		for n, i := range all {
			about, err := json.Marshal(i)
			if err != nil {
				return fmt.Errorf("instance %q: %w", i.ID, err)
			}
			listed[n] = mysqladmin.ListedInstance{Database: i.Database, About: string(about)}
		}
		return server.Marks.ListInstances(ctx, k.identity, listed)
	}
	since := last.Add(-overlap)
	if !last.IsZero() && last.Before(now) && sameDay(last, now) {
		changed, err := k.Store.Recovery.CopiesSince(ctx, server.Name(), since)
		if err != nil {
			return fmt.Errorf("read which instances have changed: %w", err)
		}
		if err := write(changed); err != nil {
			return err
		}
		return k.listRetained(ctx, server, since, write)
	}
	if err := k.Store.Recovery.EachCopy(ctx, server.Name(), write); err != nil {
		return fmt.Errorf("list the instances: %w", err)
	}
	if err := k.listRetained(ctx, server, time.Time{}, write); err != nil {
		return err
	}
	return server.Marks.ForgetListed(ctx, k.identity)
}

// listRetained replaces the copies of instances that were deleted since that time with copies of what is retained of
// them. It is called after the instances are listed: one that is deleted in between is in both lists.
func (k *Keeper) listRetained(ctx context.Context, server *shared.Server, since time.Time,
	write func([]store.InstanceCopy) error) error {
	retained, err := k.Store.Recovery.RetainedCopies(ctx, server.Name(), since)
	if err != nil {
		return fmt.Errorf("read what deleted instances have left: %w", err)
	}
	return write(retained)
}

// sameDay reports whether no multiple of relistInterval lies between two times.
func sameDay(a, b time.Time) bool {
	return a.Truncate(relistInterval).Equal(b.Truncate(relistInterval))
}

// note is the mark that a launcher stores.
type note struct {
	TaskID int64     `json:"task_id"`
	TaskAt time.Time `json:"task_at"`
}

func noteOf(m store.Mark) ([]byte, error) {
	return json.Marshal(note{TaskID: m.TaskID, TaskAt: m.TaskAt.UTC()})
}

// serverRecord is the record beside a dedicated server.
type serverRecord struct {
	Identity string `json:"identity"` // whose it is: brokers of several PostgreSQL databases may share a launcher
	store.InstanceCopy
}

func noteName(identity string) string { return "mark-" + identity }

// readNote reads a note. It returns the zero value if there is none.
func readNote(ctx context.Context, l fleet.Launcher, identity string) (n note, content []byte, err error) {
	content, err = l.ReadNote(ctx, noteName(identity))
	if err != nil || content == nil {
		return n, nil, err
	}
	if err := json.Unmarshal(content, &n); err != nil {
		return n, nil, fmt.Errorf("the launcher's note %s: %w", noteName(identity), err)
	}
	return n, content, nil
}

// records reads the records beside the servers of a launcher that are this identity's.
func records(ctx context.Context, l fleet.Launcher, identity string) (texts map[string]string,
	copies map[string]store.InstanceCopy, err error) {
	if texts, err = l.Records(ctx); err != nil {
		return nil, nil, err
	}
	copies = map[string]store.InstanceCopy{}
	for id, text := range texts {
		var r serverRecord
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			return nil, nil, fmt.Errorf("the record beside the server %s: %w", id, err)
		}
		if r.Identity == identity {
			copies[id] = r.InstanceCopy
		}
	}
	return texts, copies, nil
}

// writeDedicated writes to the launchers.
func (k *Keeper) writeDedicated(ctx context.Context, m store.Mark) {
	var err error
	for _, l := range k.Fleet.Launchers() {
		err = errors.Join(err, k.writeLauncher(ctx, l, m))
	}
	k.report(ctx, store.DedicatedServers, err)
}

// writeLauncher writes the mark to a launcher, and the instances beside their servers.
func (k *Keeper) writeLauncher(ctx context.Context, l fleet.Launcher, m store.Mark) error {
	before, err := k.compareDedicated(ctx, l)
	if err != nil {
		return err
	}
	there, own, err := records(ctx, l, k.identity)
	if err != nil {
		return err
	}
	next := map[string]string{}
	for id := range own { // unless its instance is listed, it is removed
		next[id] = ""
	}
	// Data that has arrived is not listed before its move ends: see Arrive. The places are read before the list, so that a
	// move that ends in between is in one of them.
	places, err := k.Store.Recovery.Places(ctx)
	if err != nil {
		return fmt.Errorf("read to where data is being moved: %w", err)
	}
	for _, p := range places {
		if p.Moved == nil && p.Dedicated() {
			delete(next, p.Server)
		}
	}
	list := func(some []store.InstanceCopy) error {
		for _, c := range some {
			if c.Launcher != l.Name {
				continue
			}
			text, err := json.Marshal(serverRecord{k.identity, c})
			if err != nil {
				return fmt.Errorf("instance %q: %w", c.ID, err)
			}
			next[c.DedicatedID] = string(text)
		}
		return nil
	}
	if err := k.Store.Recovery.EachCopy(ctx, store.DedicatedServers, list); err != nil {
		return fmt.Errorf("list the instances: %w", err)
	}
	retained, err := k.Store.Recovery.RetainedCopies(ctx, store.DedicatedServers, time.Time{})
	if err != nil {
		return fmt.Errorf("read what deleted instances have left: %w", err)
	}
	if err := list(retained); err != nil {
		return err
	}
	var failed error // one server's record keeps no other from being written
	for id, text := range next {
		if text == there[id] {
			continue
		}
		if err := l.Record(ctx, id, text); !errors.Is(err, launcher.ErrNotFound) { // it was destroyed meanwhile
			failed = errors.Join(failed, err)
		}
	}
	content, err := noteOf(m)
	if err != nil {
		return err
	}
	if !bytes.Equal(content, before) {
		failed = errors.Join(failed, l.WriteNote(ctx, noteName(k.identity), content))
	}
	return failed
}

// Record is what a shared server or a launcher has recorded for a PostgreSQL: the mark, and the instances.
type Record struct {
	TaskID    int64
	Found     bool // there is a mark
	Instances []store.InstanceCopy
}

// ReadShared reads the mark of a shared server, and the listed instances whose databases are there.
func ReadShared(ctx context.Context, server *shared.Server, identity string) (r Record, err error) {
	m, found, err := server.Marks.ReadMark(ctx, identity)
	if err != nil {
		return r, err
	}
	r.TaskID, r.Found = m.TaskID, found
	listed, err := server.Marks.ListedInstances(ctx, identity)
	if err != nil {
		return r, err
	}
	r.Instances, err = copies(listed)
	return r, err
}

// copies reads the list of a shared server.
func copies(listed []mysqladmin.ListedInstance) (all []store.InstanceCopy, err error) {
	for _, l := range listed {
		var i store.InstanceCopy
		if err := json.Unmarshal([]byte(l.About), &i); err != nil || i.Database != l.Database || i.ID == "" {
			return nil, errors.Join(err, fmt.Errorf("the high-water mark of database %s cannot be read", l.Database))
		}
		all = append(all, i)
	}
	return all, nil
}

// ReadDedicated reads the mark of a launcher, and the records beside its servers.
func ReadDedicated(ctx context.Context, l fleet.Launcher, identity string) (Record, error) {
	n, _, err := readNote(ctx, l, identity)
	if err != nil {
		return Record{}, err
	}
	_, copies, err := records(ctx, l, identity)
	return Record{TaskID: n.TaskID, Found: n.TaskID > 0, Instances: slices.Collect(maps.Values(copies))}, err
}

// RestartShared replaces the mark of a shared server with PostgreSQL's current one, even if the mark is newer. The
// broker that writes the next mark lists all instances again.
func RestartShared(ctx context.Context, server *shared.Server, m store.Mark) error {
	return server.Marks.WriteMark(ctx, m.Identity, mysqladmin.Mark{TaskID: m.TaskID, TaskAt: m.TaskAt})
}

// RestartDedicated is RestartShared for a launcher.
func RestartDedicated(ctx context.Context, l fleet.Launcher, m store.Mark) error {
	content, err := noteOf(m)
	if err != nil {
		return err
	}
	return l.WriteNote(ctx, noteName(m.Identity), content)
}

package mark

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"mysql-broker/provisioner/fleet"
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
	before, _, err := server.ReadMark(ctx, k.identity)
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
	if err := server.WriteMark(ctx, k.identity, next); err != nil { // before the list, which may be long
		return err
	}
	if err := k.list(ctx, server, before.ListedAt, now); err != nil {
		return err
	}
	next.ListedAt = now
	return server.WriteMark(ctx, k.identity, next)
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
		return server.ListInstances(ctx, k.identity, listed)
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
	return server.ForgetListed(ctx, k.identity)
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
	position
	Instances []store.InstanceCopy `json:"instances"`
}

// position is what a comparison needs of a note. With thousands of instances, the rest takes much memory.
type position struct {
	TaskID int64     `json:"task_id"`
	TaskAt time.Time `json:"task_at"`
}

func noteName(identity string) string { return "mark-" + identity }

// readNote reads all of a note, or its position. It returns the zero value if there is none.
func readNote[T note | position](ctx context.Context, l fleet.Launcher,
	identity string) (n T, content []byte, err error) {
	content, err = l.ReadNote(ctx, noteName(identity))
	if err != nil || content == nil {
		return n, nil, err
	}
	if err := json.Unmarshal(content, &n); err != nil {
		return n, nil, fmt.Errorf("the launcher's note %s: %w", noteName(identity), err)
	}
	return n, content, nil
}

// writeDedicated writes to the launchers.
func (k *Keeper) writeDedicated(ctx context.Context, m store.Mark) {
	var err error
	for _, l := range k.Fleet.Launchers() {
		err = errors.Join(err, k.writeNote(ctx, l, m))
	}
	k.report(ctx, store.DedicatedServers, err)
}

// writeNote writes the mark and the instances of its servers to a launcher.
func (k *Keeper) writeNote(ctx context.Context, l fleet.Launcher, m store.Mark) error {
	before, err := k.compareDedicated(ctx, l)
	if err != nil {
		return err
	}
	n := note{position: position{m.TaskID, m.TaskAt.UTC()}}
	err = k.Store.Recovery.EachCopy(ctx, store.DedicatedServers, func(some []store.InstanceCopy) error {
		for _, i := range some {
			if i.Launcher == l.Name {
				n.Instances = append(n.Instances, i)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list the instances: %w", err)
	}
	retained, err := k.Store.Recovery.RetainedCopies(ctx, store.DedicatedServers, time.Time{})
	if err != nil {
		return fmt.Errorf("read what deleted instances have left: %w", err)
	}
	for _, c := range retained {
		if c.Launcher == l.Name {
			n.Instances = append(n.Instances, c)
		}
	}
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	if bytes.Equal(content, before) {
		return nil
	}
	return l.WriteNote(ctx, noteName(k.identity), content)
}

// Record is what a shared server or a launcher has recorded for a PostgreSQL: the mark, and the instances.
type Record struct {
	TaskID    int64
	Found     bool // there is a mark
	Instances []store.InstanceCopy
}

// ReadShared reads the mark of a shared server, and the listed instances whose databases are there.
func ReadShared(ctx context.Context, server *shared.Server, identity string) (r Record, err error) {
	m, found, err := server.ReadMark(ctx, identity)
	if err != nil {
		return r, err
	}
	r.TaskID, r.Found = m.TaskID, found
	listed, err := server.ListedInstances(ctx, identity)
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

// ReadDedicated reads the mark of a launcher.
func ReadDedicated(ctx context.Context, l fleet.Launcher, identity string) (Record, error) {
	n, _, err := readNote[note](ctx, l, identity)
	return Record{TaskID: n.TaskID, Found: n.TaskID > 0, Instances: n.Instances}, err
}

// RestartShared replaces the mark of a shared server with PostgreSQL's current one, even if the mark is newer. The
// broker that writes the next mark lists all instances again.
func RestartShared(ctx context.Context, server *shared.Server, m store.Mark) error {
	return server.WriteMark(ctx, m.Identity, mysqladmin.Mark{TaskID: m.TaskID, TaskAt: m.TaskAt})
}

// RestartDedicated is RestartShared for a launcher.
func RestartDedicated(ctx context.Context, l fleet.Launcher, m store.Mark) error {
	n, _, err := readNote[note](ctx, l, m.Identity)
	if err != nil {
		return err
	}
	n.position = position{m.TaskID, m.TaskAt.UTC()}
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return l.WriteNote(ctx, noteName(m.Identity), content)
}

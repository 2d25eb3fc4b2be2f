package archive

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"mysql-broker/provisioner/backup"
	"mysql-broker/provisioner/binlog"
	"mysql-broker/store"
)

const (
	// noteInterval is how far the object store may be behind PostgreSQL, which knows after each round until when a log is
	// archived. Rounds are a minute apart by default, or a little less.
	noteInterval = 55 * time.Second
	// stopTime limits what a broker that stops still notes.
	stopTime = 5 * time.Second
)

// notes are how far logs are archived, as the object store is to know without PostgreSQL: backups are imported from it
// alone. A segment says it of a server that writes, and a note of one that does not.
type notes struct {
	mu  sync.Mutex
	all map[string]*note // by the id of the log
}

type note struct {
	instanceID string
	end        backup.LogEnd
	stored     time.Time // the end in the object store is not before, as far as this broker knows
	renewed    bool      // in the present round
}

// of returns the note of a log. The caller has locked ns.
func (ns *notes) of(instanceID, id string) *note {
	if ns.all == nil {
		ns.all = map[string]*note{}
	}
	if ns.all[id] == nil {
		ns.all[id] = &note{instanceID: instanceID}
	}
	return ns.all[id]
}

// add adds what PostgreSQL knows of a log.
func (ns *notes) add(l store.BinaryLog) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := ns.of(l.InstanceID, l.ID); l.Until.After(n.end.Until) {
		n.end = backup.LogEnd{At: binlog.Position{File: l.File, Offset: l.Position}, Until: l.Until}
	}
}

// note notes how far a log is archived in this round, at most about once a minute. grown says that a segment tells it.
func (a *Archiver) note(ctx context.Context, l backup.Log, end backup.LogEnd, grown bool) error {
	a.notes.mu.Lock()
	n := a.notes.of(l.InstanceID, l.ID)
	n.end, n.renewed = end, true
	if grown {
		n.stored = end.Until
	}
	due := end.Until.Sub(n.stored) >= noteInterval
	a.notes.mu.Unlock()
	if !due {
		return nil
	}
	if err := a.Vault.NoteEnd(ctx, l, end); err != nil {
		return fmt.Errorf("note until when the binary log is archived: %w", err)
	}
	a.notes.mu.Lock()
	defer a.notes.mu.Unlock()
	n.stored = end.Until
	return nil
}

// noteOthers notes how far those logs are archived that were not archived in the round that ends: they have ended, or
// their servers are silent.
func (a *Archiver) noteOthers(ctx context.Context) error {
	a.notes.mu.Lock()
	defer a.notes.mu.Unlock()
	for id, n := range a.notes.all {
		if n.renewed {
			n.renewed = false
			continue
		}
		if n.end.Until.After(n.stored) {
			l, err := a.Vault.Log(ctx, n.instanceID, id)
			if err == nil {
				err = a.Vault.NoteEnd(ctx, l, n.end)
			}
			if err != nil && !errors.Is(err, backup.ErrNotFound) { // it was deleted, or nothing was archived yet
				return fmt.Errorf("note until when the archive %s goes: %w", id, err)
			}
		}
		delete(a.notes.all, id)
	}
	return nil
}

// stopNotes notes what is not noted yet.
func (a *Archiver) stopNotes() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, n := range a.notes.all {
		n.renewed = false
	}
	return a.noteOthers(ctx)
}

// End reads from the object store how far a log is archived.
func End(ctx context.Context, v backup.Vault, l backup.Log) (backup.LogEnd, error) {
	end := backup.LogEnd{At: l.Begin, Until: l.BeganAt}
	all, err := v.Segments(ctx, l)
	if err != nil {
		return end, err
	}
	if len(all) > 0 {
		var head backup.SegmentHead
		if end.At, head, err = v.ReadSegment(ctx, l, all[len(all)-1], nil); err != nil {
			return end, err
		}
		end.Until = head.After
		if !end.At.Before(head.Target) {
			end.Until = head.Until
		}
	}
	noted, err := v.NotedEnd(ctx, l)
	var damaged *backup.DamagedError
	if errors.As(err, &damaged) { // the segments tell almost as much
		return end, nil
	}
	if noted.Until.After(end.Until) && !end.At.Before(noted.At) { // else a segment is missing
		end.Until = noted.Until
	}
	return end, err
}

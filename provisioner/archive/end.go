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
	// recordInterval is how far the object store may be behind PostgreSQL, which knows after each round until when a log
	// is archived. Rounds are a minute apart by default, or a little less.
	recordInterval = 55 * time.Second
	// stopTime limits what a broker that stops still records.
	stopTime = 5 * time.Second
)

// ends are how far logs are archived, as the object store is to know without PostgreSQL: backups are imported from it
// alone. A segment says it of a server that writes, and a recorded end of one that does not.
type ends struct {
	mu  sync.Mutex
	all map[string]*knownEnd // by the id of the log
}

type knownEnd struct {
	instanceID string
	end        backup.LogEnd
	stored     time.Time // the end in the object store is not before, as far as this broker knows
	renewed    bool      // in the present round
}

// of returns the end of a log. The caller has locked es.
func (es *ends) of(instanceID, id string) *knownEnd {
	if es.all == nil {
		es.all = map[string]*knownEnd{}
	}
	if es.all[id] == nil {
		es.all[id] = &knownEnd{instanceID: instanceID}
	}
	return es.all[id]
}

// add adds what PostgreSQL knows of a log.
func (es *ends) add(l store.BinaryLog) {
	es.mu.Lock()
	defer es.mu.Unlock()
	if n := es.of(l.InstanceID, l.ID); l.Until.After(n.end.Until) {
		n.end = backup.LogEnd{At: binlog.Position{File: l.File, Offset: l.Position}, Until: l.Until}
	}
}

// recordEnd records how far a log is archived in this round, at most about once a minute. grown says that a segment
// tells it.
func (a *Archiver) recordEnd(ctx context.Context, l backup.Log, end backup.LogEnd, grown bool) error {
	a.ends.mu.Lock()
	n := a.ends.of(l.InstanceID, l.ID)
	n.end, n.renewed = end, true
	if grown {
		n.stored = end.Until
	}
	due := end.Until.Sub(n.stored) >= recordInterval
	a.ends.mu.Unlock()
	if !due {
		return nil
	}
	if err := a.Vault.RecordEnd(ctx, l, end); err != nil {
		return fmt.Errorf("record until when the binary log is archived: %w", err)
	}
	a.ends.mu.Lock()
	defer a.ends.mu.Unlock()
	n.stored = end.Until
	return nil
}

// recordOthers records how far those logs are archived that were not archived in the round that ends: they have ended,
// or their servers are silent.
func (a *Archiver) recordOthers(ctx context.Context) error {
	a.ends.mu.Lock()
	defer a.ends.mu.Unlock()
	for id, n := range a.ends.all {
		if n.renewed {
			n.renewed = false
			continue
		}
		if n.end.Until.After(n.stored) {
			l, err := a.Vault.Log(ctx, n.instanceID, id)
			if err == nil {
				err = a.Vault.RecordEnd(ctx, l, n.end)
			}
			if err != nil && !errors.Is(err, backup.ErrNotFound) { // it was deleted, or nothing was archived yet
				return fmt.Errorf("record until when the archive %s goes: %w", id, err)
			}
		}
		delete(a.ends.all, id)
	}
	return nil
}

// recordLast records what is not recorded yet.
func (a *Archiver) recordLast() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	for _, n := range a.ends.all {
		n.renewed = false
	}
	return a.recordOthers(ctx)
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
	recorded, err := v.RecordedEnd(ctx, l)
	var damaged *backup.DamagedError
	if errors.As(err, &damaged) { // the segments tell almost as much
		return end, nil
	}
	if recorded.Until.After(end.Until) && !end.At.Before(recorded.At) { // else a segment is missing
		end.Until = recorded.Until
	}
	return end, err
}

package backup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"mysql-broker/provisioner/backup/objectstore"
	"mysql-broker/provisioner/binlog"
)

const (
	// logName is the object that makes segments readable. It is written first.
	logName = "log.json"
	// endName is the object that has the LogEnd of a server that writes nothing, which needs no segment. It is optional.
	endName = "end.zst.enc"
)

// Log is the archive of the binary logs of one server, without gaps. Its segments are parts of the server's files, each
// named by the position of its first byte. So if two brokers archive the same position, they write the same object, and
// the second one finds it there.
type Log struct {
	ID         string          `json:"id"`
	InstanceID string          `json:"instance_id"`
	Server     string          `json:"server"`
	Launcher   string          `json:"launcher"`
	Begin      binlog.Position `json:"begin"`
	BeganAt    time.Time       `json:"began_at"`

	key []byte
}

// SegmentHead precedes the bytes of the log in each segment.
type SegmentHead struct {
	Previous binlog.Position `json:"previous"` // where the segment before ends
	Format   []byte          `json:"format"`   // see binlog.Sink
	After    time.Time       `json:"after"`    // what is in the segment was committed later than this
	Target   binlog.Position `json:"target"`   // where the server's logs ended ...
	Until    time.Time       `json:"until"`    // ... at this time
}

// LogEnd says how far a log is archived.
type LogEnd struct {
	At    binlog.Position `json:"at"`
	Until time.Time       `json:"until"` // what was committed before is archived
}

// Mark says where in a log a backup was taken.
type Mark struct {
	Log      string          `json:"log"`
	Database string          `json:"database"` // its name in the logs
	At       binlog.Position `json:"at"`
	Settled  binlog.Position `json:"settled"` // when the views, routines, triggers and events were read
	Time     time.Time       `json:"time"`    // what is in the backup was committed before, by the server's clock
}

// OpenLog returns a log with the key of its segments. It creates the log if there is none with that id.
func (v Vault) OpenLog(ctx context.Context, l Log) (Log, error) {
	there, err := v.Log(ctx, l.InstanceID, l.ID)
	if !errors.Is(err, ErrNotFound) {
		return there, err
	}
	l.key = newKey()
	raw, err := json.Marshal(l)
	if err != nil {
		return l, err
	}
	sealed, err := v.seal(raw, l.key)
	if err != nil {
		return l, err
	}
	err = v.Objects.Create(ctx, folder(l.InstanceID, l.ID)+logName, sealed)
	if errors.Is(err, objectstore.ErrExists) {
		return v.Log(ctx, l.InstanceID, l.ID)
	}
	return l, err
}

// Log returns a log, or ErrNotFound.
func (v Vault) Log(ctx context.Context, instanceID, id string) (l Log, err error) {
	l, _, err = v.log(ctx, folder(instanceID, id)+logName)
	return l, err
}

func (v Vault) log(ctx context.Context, name string) (l Log, e envelope, err error) {
	e, l.key, err = v.open(ctx, name, &l)
	if err == nil && name != folder(l.InstanceID, l.ID)+logName {
		err = &DamagedError{name, errors.New("it is that of another log")}
	}
	return l, e, err
}

// EachLog calls fn with all logs in the object store, or with the error of one that cannot be read.
func (v Vault) EachLog(ctx context.Context, fn func(object string, l Log, err error) error) error {
	all, err := v.folders(ctx)
	if err != nil {
		return err
	}
	return eachDocument(ctx, all, logName, v.log, fn)
}

// segmentName names the segment that begins at a position. Within a file, names sort by offset.
func segmentName(at binlog.Position) string {
	return fmt.Sprintf("%s/%012d.zst.enc", at.File, at.Offset)
}

func segmentPosition(name string) (at binlog.Position, ok bool) {
	file, rest, found := strings.Cut(name, "/")
	digits, suffix := strings.CutSuffix(rest, ".zst.enc")
	offset, err := strconv.ParseInt(digits, 10, 64)
	return binlog.Position{File: file, Offset: offset}, found && suffix && err == nil && binlog.Number(file) >= 0
}

// Segments lists where the segments of a log begin, in their order.
func (v Vault) Segments(ctx context.Context, l Log) (all []binlog.Position, err error) {
	prefix := folder(l.InstanceID, l.ID)
	err = v.Objects.List(ctx, prefix, func(name string) error {
		if at, ok := segmentPosition(strings.TrimPrefix(name, prefix)); ok {
			all = append(all, at)
		}
		return nil
	})
	slices.SortFunc(all, binlog.Position.Compare)
	return all, err
}

// RecordEnd records how far a log is archived, unless it is known to be archived further.
func (v Vault) RecordEnd(ctx context.Context, l Log, end LogEnd) error {
	known, err := v.RecordedEnd(ctx, l)
	var damaged *DamagedError // it is replaced
	if err != nil && !errors.As(err, &damaged) || !end.Until.After(known.Until) {
		return err
	}
	data, err := sealAll(l.key, place(l.InstanceID, l.ID, endName), end)
	if err != nil {
		return err
	}
	return v.Objects.Put(ctx, folder(l.InstanceID, l.ID)+endName, data)
}

// RecordedEnd returns the last LogEnd that was recorded. It is zero if there is none.
func (v Vault) RecordedEnd(ctx context.Context, l Log) (end LogEnd, err error) {
	name := folder(l.InstanceID, l.ID) + endName
	data, err := v.Objects.Get(ctx, name, maxManifest)
	if errors.Is(err, objectstore.ErrNotFound) {
		return end, nil
	}
	if err != nil {
		return end, err
	}
	err = v.decrypt(data, l.key, name, place(l.InstanceID, l.ID, endName), func(plain io.Reader) error {
		if err := json.NewDecoder(plain).Decode(&end); err != nil {
			return &DamagedError{name, err}
		}
		return nil
	})
	return end, err
}

// DeleteSegmentsBefore deletes the segments that end at or before a position.
func (v Vault) DeleteSegmentsBefore(ctx context.Context, l Log, at binlog.Position) error {
	all, err := v.Segments(ctx, l)
	for n := 0; n+1 < len(all) && err == nil && !at.Before(all[n+1]); n++ {
		err = v.Objects.Delete(ctx, folder(l.InstanceID, l.ID)+segmentName(all[n]))
	}
	return err
}

// DeleteLog deletes a log with all its segments. It may be called again.
func (v Vault) DeleteLog(ctx context.Context, instanceID, id string) error {
	return v.remove(ctx, instanceID, id, logName)
}

// maxSegment limits how much of a segment is read. A segment with a very large row is larger than others.
const maxSegment = 2 << 30

// ErrNoSegment says that no segment begins at a position.
var ErrNoSegment = errors.New("there is no segment")

// ReadSegment calls fn with the bytes of a segment from its first one on. It returns the segment's end.
func (v Vault) ReadSegment(ctx context.Context, l Log, at binlog.Position,
	fn func(head SegmentHead, in io.Reader) error) (end binlog.Position, head SegmentHead, err error) {
	name := segmentName(at)
	data, err := v.Objects.Get(ctx, folder(l.InstanceID, l.ID)+name, maxSegment)
	if errors.Is(err, objectstore.ErrNotFound) {
		return at, head, ErrNoSegment
	}
	if err != nil {
		return at, head, err
	}
	end = at
	err = v.decrypt(data, l.key, folder(l.InstanceID, l.ID)+name, place(l.InstanceID, l.ID, name),
		func(plain io.Reader) error {
			damaged := func(err error) error { return &DamagedError{folder(l.InstanceID, l.ID) + name, err} }
			in := bufio.NewReaderSize(plain, 64<<10)
			line, err := in.ReadBytes('\n')
			if err == nil {
				err = json.Unmarshal(line, &head)
			}
			if err != nil {
				return damaged(err)
			}
			counted := &counter{in: in}
			if fn != nil {
				if err := fn(head, counted); err != nil {
					if counted.failed != nil {
						return damaged(counted.failed)
					}
					return err
				}
			}
			if _, err := io.Copy(io.Discard, counted); err != nil {
				return damaged(err)
			}
			end.Offset += counted.n
			return nil
		})
	return end, head, err
}

// counter counts what is read, and keeps an error.
type counter struct {
	in     io.Reader
	n      int64
	failed error
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed = err
	}
	return n, err
}

// LogWriter writes segments of a log. It is a binlog.Sink.
type LogWriter struct {
	Vault Vault
	Log   Log
	At    binlog.Position // where the next segment begins
	Head  SegmentHead
	// Written is called after each segment, with its end and its size in the object store.
	Written func(ctx context.Context, end binlog.Position, bytes int64) error
	// Reserve waits until the process has the memory for a large event, or returns memory.ErrTooLarge. It may be nil.
	Reserve func(ctx context.Context, bytes int64) (release func(), err error)
	// FileBegan is when the server began the file of the last segment; 0 if that is not known.
	FileBegan int64

	sealer  *sealer
	name    string // of the segment that is being filled, "" for none
	reached binlog.Position
	release func() // the memory for the segment, nil for the usual one
}

// NewLogWriter returns a writer that begins where a log ends. What it writes was committed later than after. At the
// time until, the server's logs ended at target.
func NewLogWriter(v Vault, l Log, at binlog.Position, after time.Time, target binlog.Position, until time.Time,
	written func(ctx context.Context, end binlog.Position, bytes int64) error) (*LogWriter, error) {
	s, err := newSealer(l.key)
	return &LogWriter{Vault: v, Log: l, At: at, reached: at, sealer: s, Written: written,
		Head: SegmentHead{Previous: at, After: after, Target: target, Until: until}}, err
}

// ErrArchived says that another broker has already archived the next segment.
var ErrArchived = errors.New("another broker has archived this part of the binary log")

// Begin implements binlog.Sink.
func (w *LogWriter) Begin(ctx context.Context, at binlog.Position) error {
	if err := w.Flush(ctx); err != nil {
		return err
	}
	if at != w.At && (binlog.Number(at.File) != binlog.Number(w.At.File)+1 || at.Offset != binlog.FirstOffset) {
		return fmt.Errorf("the binary log goes on at %s after %s", at, w.At)
	}
	w.At, w.reached = at, at
	return nil
}

// Format implements binlog.Sink. It returns ErrOtherFile if the server has begun another file of the same name.
func (w *LogWriter) Format(event []byte) error {
	began := binlog.Began(event)
	if w.FileBegan != 0 && began != w.FileBegan && w.At.Offset > binlog.FirstOffset {
		return ErrOtherFile
	}
	w.Head.Format, w.FileBegan = event, began
	return nil
}

// ErrOtherFile says that a binary log is not the one that was archived so far.
var ErrOtherFile = errors.New("the server has another binary log of that name")

// Next implements binlog.Sink. A large event has a segment of its own.
func (w *LogWriter) Next(ctx context.Context, size int64) error {
	if w.Reserve == nil || size <= 2*objectBytes {
		return nil
	}
	if err := w.Flush(ctx); err != nil {
		return err
	}
	size += size / 64 // of encryption
	release, err := w.Reserve(ctx, size)
	if err == nil {
		w.release = release
		w.sealer.buffer.Grow(int(size)) // to grow by and by would take more
	}
	return err
}

// Close gives the memory for a large event back. It writes nothing.
func (w *LogWriter) Close() {
	if w.release != nil {
		w.sealer.buffer = bytes.Buffer{}
		w.release()
		w.release = nil
	}
}

// Write implements binlog.Sink.
func (w *LogWriter) Write(p []byte) (int, error) {
	if w.name == "" {
		w.name = segmentName(w.At)
		if err := w.sealer.begin(place(w.Log.InstanceID, w.Log.ID, w.name)); err != nil {
			return 0, err
		}
		head, err := json.Marshal(w.Head)
		if err != nil {
			return 0, err
		}
		if _, err := w.sealer.Write(append(head, '\n')); err != nil {
			return 0, err
		}
	}
	return w.sealer.Write(p)
}

// End implements binlog.Sink.
func (w *LogWriter) End(ctx context.Context, at binlog.Position) error {
	w.reached = at
	if !w.sealer.full() && w.release == nil {
		return nil
	}
	return w.Flush(ctx)
}

// Flush writes the collected bytes as a segment.
func (w *LogWriter) Flush(ctx context.Context) error {
	if w.name == "" {
		return nil
	}
	data, err := w.sealer.end()
	if err != nil {
		return err
	}
	defer w.Close()
	err = w.Vault.Objects.Create(ctx, folder(w.Log.InstanceID, w.Log.ID)+w.name, data)
	if errors.Is(err, objectstore.ErrExists) {
		return ErrArchived
	}
	if err != nil {
		return err
	}
	w.At, w.Head.Previous, w.name = w.reached, w.reached, ""
	return w.Written(ctx, w.reached, int64(len(data)))
}

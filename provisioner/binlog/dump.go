package binlog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// Sink takes binary logs as they are on the server's disk, event by event.
type Sink interface {
	// Begin is called before the first event, and where another file begins.
	Begin(ctx context.Context, at Position) error

	// Format is called before the first event, and where another file begins, with the event that describes the format.
	// Pass it to Replay.Format.
	Format(event []byte) error

	// Next is called before each event, with its size in bytes.
	Next(ctx context.Context, size int64) error

	// Write takes a part of an event. It is called several times for large ones.
	Write(p []byte) (int, error)

	// End is called at the end of each event, with the position behind it.
	End(ctx context.Context, at Position) error
}

// Flags of COM_BINLOG_DUMP: end where the log ends, and, for MariaDB, send all events.
const dumpFlags = 1 | 2

// maxOffset is the largest offset that the header of an event can have. A file is longer if a transaction is, because
// servers never divide one between files.
const maxOffset = math.MaxUint32

// ErrTooLong says that a file goes on behind the largest offset that events can have.
var ErrTooLong = errors.New("a binary log is longer than 4 GiB")

// Dump sends the server's logs, from a position up to their present end, to a sink. The position must be that of an
// event. A replica's session sees only what is on the server's disk.
func Dump(ctx context.Context, l Login, from Position, to Sink) error {
	c, err := dial(ctx, l)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()                         // all was read
	stop := context.AfterFunc(ctx, func() { _ = c.Close() }) // interrupts a wait for the server
	defer stop()
	err = c.dump(ctx, from, to)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

func (c *conn) dump(ctx context.Context, from Position, to Sink) error {
	if from.Offset > maxOffset {
		return ErrTooLong
	}
	// Names of both flavours: a server takes the one that it knows.
	if err := c.exec("SET @master_binlog_checksum = @@GLOBAL.binlog_checksum, " +
		"@source_binlog_checksum = @@GLOBAL.binlog_checksum, @mariadb_slave_capability = 4, " +
		"net_write_timeout = 600"); err != nil {
		return err
	}
	c.sequence = 0
	command := binary.LittleEndian.AppendUint32([]byte{comBinlogDump}, uint32(from.Offset))
	command = binary.LittleEndian.AppendUint16(command, dumpFlags)
	command = binary.LittleEndian.AppendUint32(command, 0) // no replica: the server does not list it
	if err := c.write(append(command, from.File...)); err != nil {
		return err
	}
	d := dumping{conn: c, to: to}
	for {
		if done, err := d.event(ctx, from); done || err != nil {
			return err
		}
	}
}

type dumping struct {
	*conn
	to Sink
	at Position // "" for the file until the server has named it
}

// event reads one event. It reports whether that was the end instead.
func (d *dumping) event(ctx context.Context, from Position) (done bool, err error) {
	length, done, err := d.packet()
	if done || err != nil {
		return done, err
	}
	raw, err := d.read(headerBytes)
	if err != nil {
		return false, err
	}
	h := readHeader(raw)
	left, last := length-1-headerBytes, length < packetBytes
	switch {
	case h.kind == rotateEvent && h.artificial():
		payload, err := d.read(left)
		if err != nil {
			return false, err
		}
		return false, d.rotate(ctx, payload, from)
	case h.kind == formatEvent && last:
		return false, d.format(ctx, h, raw, left)
	case d.tooLong(h):
		return false, ErrTooLong
	case h.artificial(), h.kind == heartbeatEvent, h.kind == heartbeatEvent2: // not in the file
		_, err := d.in.Discard(left)
		return false, err
	}
	return false, d.pass(ctx, h, raw, left, last)
}

// packet begins a packet that has an event, and returns its length with the first byte, which it has read. It is done
// where the server has no more events.
func (d *dumping) packet() (length int, done bool, err error) {
	if length, err = d.next(); err != nil {
		return 0, false, err
	}
	status, err := d.in.ReadByte()
	if err != nil {
		return 0, false, err
	}
	switch {
	case status == 0xfe && length < 9:
		_, err = d.in.Discard(length - 1)
		return 0, true, err
	case status == 0xff:
		if err = d.in.UnreadByte(); err == nil {
			_, err = d.rest(length)
		}
	case status != 0 || length < 1+headerBytes:
		err = errProtocol
	}
	return length, false, err
}

func (d *dumping) read(length int) ([]byte, error) {
	raw := make([]byte, length)
	_, err := io.ReadFull(d.in, raw)
	return raw, err
}

// format passes on how the events that follow are written.
func (d *dumping) format(ctx context.Context, h header, raw []byte, left int) error {
	body, err := d.read(left)
	if err != nil {
		return err
	}
	whole := append(raw, body...)
	if err := d.to.Format(whole); err != nil {
		return err
	}
	if h.next == 0 { // it is that at the begin of the file
		return nil
	}
	return d.pass(ctx, h, whole, 0, true)
}

// pass passes on an event that may go on in further packets. Of the present one, raw was read, and left bytes were not.
func (d *dumping) pass(ctx context.Context, h header, raw []byte, left int, last bool) error {
	end := d.at.Offset + int64(h.size)
	// MariaDB from 11.4 on leaves the end out of most events, unless binlog_legacy_event_pos is set.
	if d.at.File == "" || h.next != 0 && int64(h.next) != end {
		return fmt.Errorf("the event at %s has %d bytes and ends at %d", d.at, h.size, h.next)
	}
	if err := d.to.Next(ctx, int64(h.size)); err != nil {
		return err
	}
	if _, err := d.to.Write(raw); err != nil {
		return err
	}
	for {
		if _, err := io.CopyN(d.to, d.in, int64(left)); err != nil {
			return err
		}
		if last {
			break
		}
		var err error
		if left, err = d.next(); err != nil {
			return err
		}
		last = left < packetBytes
	}
	d.at.Offset = end
	return d.to.End(ctx, d.at)
}

// tooLong reports whether an event of the file ends behind the offsets that can be written.
func (d *dumping) tooLong(h header) bool {
	return !h.artificial() && h.kind != heartbeatEvent && h.kind != heartbeatEvent2 &&
		d.at.Offset+int64(h.size) > maxOffset
}

// rotate reads the event with which the server names the file that it sends. It is in no file.
func (d *dumping) rotate(ctx context.Context, payload []byte, from Position) error {
	if len(payload) < 9 {
		return errProtocol
	}
	at := Position{Offset: int64(binary.LittleEndian.Uint64(payload)), File: string(payload[8:])}
	if len(at.File) >= len(from.File)+checksumBytes { // names get longer by a digit at most
		at.File = at.File[:len(at.File)-checksumBytes]
	}
	if at == d.at || at.File == d.at.File {
		return nil
	}
	if Number(at.File) < 0 {
		return errors.New("the server names a binary log that has no number")
	}
	d.at = at
	return d.to.Begin(ctx, at)
}

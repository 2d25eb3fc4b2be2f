package binlog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"
)

// Kinds of events.
// https://dev.mysql.com/doc/dev/mysql-server/latest/namespacemysql_1_1binlog_1_1event.html
// https://mariadb.com/kb/en/2-binlog-event-header/
const (
	queryEvent      = 2
	rotateEvent     = 4
	intVarEvent     = 5
	randEvent       = 13
	userVarEvent    = 14
	formatEvent     = 15
	xidEvent        = 16
	tableMapEvent   = 19
	heartbeatEvent  = 27
	gtidEvent       = 33
	anonymousEvent  = 34
	xaPrepareEvent  = 38
	heartbeatEvent2 = 41
	taggedGTIDEvent = 42

	mariaGTIDEvent = 162
)

// rowsEvents are the kinds of events with rows. True are those that write rows, and do not only delete them.
var rowsEvents = map[byte]bool{23: true, 24: true, 25: false, 30: true, 31: true, 32: false, 39: true, 166: true,
	167: true, 168: false, 169: true, 170: true, 171: false}

// harmlessEvents tell replicas where they are, or repeat statements for people: of MySQL the end of the server, the
// next file, ignorable events, texts of statements, identifiers of transactions before, what group replication
// certifies and how its members change; of MariaDB texts of statements, the oldest file needed and identifiers. The
// others that are not known here are refused, among them lost events (26), compressed (40, 165) and encrypted ones
// (164).
var harmlessEvents = map[byte]bool{3: true, rotateEvent: true, 28: true, 29: true, 35: true, 36: true, 37: true,
	160: true, 161: true, 163: true}

// inputs are what the events before a statement say that it depends on.
var inputs = map[byte]string{intVarEvent: "a number of AUTO_INCREMENT", randEvent: "a random number",
	userVarEvent: "a variable of the user"}

const (
	headerBytes   = 19
	checksumBytes = 4

	ignorable = 0x80 // a flag of events that replicas need not know

	// Flags of rows.
	statementEnds      = 1
	noForeignKeyChecks = 2
	relaxedUnique      = 4
	loggedForeignKeys  = 16 // MySQL from 9.6 on has written what foreign keys did
)

// header is that of an event.
type header struct {
	when  uint32 // seconds since 1970
	kind  byte
	size  uint32 // with the header
	next  uint32 // the offset of the event behind it
	flags uint16
}

func readHeader(p []byte) header {
	return header{when: binary.LittleEndian.Uint32(p), kind: p[4], size: binary.LittleEndian.Uint32(p[9:]),
		next: binary.LittleEndian.Uint32(p[13:]), flags: binary.LittleEndian.Uint16(p[17:])}
}

// Began is when the server began the file of an event for Sink.Format, in seconds since 1970.
func Began(format []byte) int64 { return int64(readHeader(format).when) }

// artificial reports whether an event is in no file.
func (h header) artificial() bool { return h.flags&0x20 != 0 }

// event is a whole event.
type event struct {
	header
	raw  []byte // with the header and the checksum
	body []byte // without them
}

// errShort says that an event has fewer bytes than its kind needs.
func (e event) errShort() error {
	return fmt.Errorf("an event of the kind %d with %d bytes is not understood", e.kind, len(e.raw))
}

// commitTime is when the transaction that the event begins was committed. MySQL writes that time. MariaDB writes only
// the second in which the last statement of the transaction began; then exact is false.
func (e event) commitTime() (at time.Time, exact bool) {
	if e.kind == mariaGTIDEvent {
		return time.Unix(int64(e.when), 0), false
	}
	const timestamp = 1 + 16 + 8 + 1 + 16 // flags, UUID, number, kind of clock, its two values
	if len(e.body) < timestamp+7 {
		return time.Unix(int64(e.when), 0), false
	}
	var raw [8]byte
	copy(raw[:7], e.body[timestamp:])
	return time.UnixMicro(int64(binary.LittleEndian.Uint64(raw[:]) &^ (1 << 55))), true
}

// Flags of MariaDB's GTID events: a single statement follows, or an XA transaction up to its XA PREPARE.
const (
	flagStandalone = 1
	flagPreparedXA = 64
)

// sealed returns the bytes of an event whose body was changed, with its new length and checksum.
func sealed(raw []byte, checksummed bool) []byte {
	if checksummed {
		raw = append(raw, 0, 0, 0, 0)
	}
	binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
	if checksummed {
		end := len(raw) - checksumBytes
		binary.LittleEndian.PutUint32(raw[end:], crc32.ChecksumIEEE(raw[:end]))
	}
	return raw
}

// tableMap is an event that assigns a number to a table.
type tableMap struct {
	id       uint64
	database string
	table    string
}

func tableID(p []byte) uint64 {
	var raw [8]byte
	copy(raw[:6], p)
	return binary.LittleEndian.Uint64(raw[:])
}

func (e event) tableMap() (m tableMap, err error) {
	v := variables{rest: e.body}
	v.take(8)
	database := v.text()
	v.take(1)
	table := v.text()
	if v.short {
		return m, e.errShort()
	}
	return tableMap{tableID(e.body), database, table}, nil
}

// in returns the bytes of the event for a table of the same name in another database.
func (e event) in(database string, checksummed bool) []byte {
	old := int(e.body[8])
	raw := append([]byte(nil), e.raw[:headerBytes+8]...)
	raw = append(append(raw, byte(len(database))), database...)
	return sealed(append(raw, e.body[9+old:]...), checksummed)
}

// flagged returns the bytes of an event with rows, with more flags. The one for relaxed checks of unique keys goes:
// with it, MariaDB may write the rows in bulk, and fail at the commit.
func (e event) flagged(flags byte, checksummed bool) []byte {
	if flags = (e.body[6] | flags) &^ relaxedUnique; flags == e.body[6] {
		return e.raw
	}
	raw := append([]byte(nil), e.raw[:headerBytes+len(e.body)]...)
	raw[headerBytes+6] = flags
	return sealed(raw, checksummed)
}

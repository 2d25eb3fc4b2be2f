package binlog

import (
	"context"
	"regexp"
	"strings"
)

// maxXABytes limits the changes that are kept of XA transactions that are prepared but not committed.
const maxXABytes = 256 << 20

// xaTransactions are the prepared XA transactions. Their changes are written only when they are committed; until then,
// nobody could change the same rows. A transaction that was never committed is left out, as nobody could read its
// changes.
type xaTransactions struct {
	open     bool       // one has begun, and is not prepared yet
	changes  [][][]byte // of the open one: the events of each BINLOG statement
	name     string     // of the open one, once it is known
	bytes    int
	prepared map[string][][][]byte // by name
}

func (x *xaTransactions) begin() { x.open, x.changes, x.name = true, nil, "" }

func (x *xaTransactions) add(events [][]byte) error {
	for _, e := range events {
		x.bytes += len(e)
	}
	if x.bytes > maxXABytes {
		return &UnsupportedError{"prepared XA transactions of more than 256 MiB"}
	}
	x.changes = append(x.changes, events)
	return nil
}

// take removes a prepared transaction.
func (x *xaTransactions) take(name string) (changes [][][]byte, known bool) {
	changes, known = x.prepared[name]
	delete(x.prepared, name)
	for _, events := range changes {
		for _, e := range events {
			x.bytes -= len(e)
		}
	}
	return changes, known
}

var xaWords = regexp.MustCompile(`(?is)^XA\s+(START|BEGIN|END|COMMIT|ROLLBACK)\s+(.*?)(\s+ONE\s+PHASE)?\s*$`)

func (r *Replay) xaStatement(ctx context.Context, text string) error {
	words := xaWords.FindStringSubmatch(text)
	if words == nil {
		return &UnsupportedError{"a statement of an XA transaction that is not understood"}
	}
	name := words[2]
	switch strings.ToUpper(words[1]) {
	case "START", "BEGIN":
		r.xa.begin()
	case "END":
		r.xa.name = name
	case "ROLLBACK":
		r.xa.take(name)
	default:
		changes, known := r.xa.take(name)
		if !known {
			return &UnsupportedError{"the end of an XA transaction that was prepared before the backup"}
		}
		return r.applyXA(ctx, changes)
	}
	return nil
}

// prepared reads the event that ends an XA transaction. It may also say that the transaction is committed.
func (r *Replay) prepared(ctx context.Context, e event) error {
	if len(e.body) < 1 || r.xa.name == "" {
		return e.errShort()
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	clear(r.maps)
	r.order = nil
	if r.xa.prepared == nil {
		r.xa.prepared = map[string][][][]byte{}
	}
	r.xa.prepared[r.xa.name] = r.xa.changes
	r.xa.open = false
	if e.body[0] == 0 {
		return nil
	}
	changes, _ := r.xa.take(r.xa.name)
	return r.applyXA(ctx, changes)
}

func (r *Replay) applyXA(ctx context.Context, changes [][][]byte) error {
	for _, events := range changes {
		if err := r.apply(ctx, events); err != nil {
			return err
		}
	}
	return r.commit(ctx)
}

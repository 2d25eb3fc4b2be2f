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
	open     bool         // one has begun, and is not prepared yet
	changes  []rowChanges // of the open one
	name     string       // of the open one, once it is known
	bytes    int
	prepared map[string][]rowChanges // by name
}

func (x *xaTransactions) begin() { x.open, x.changes, x.name = true, nil, "" }

func (x *xaTransactions) add(changes rowChanges) error {
	x.bytes += changes.bytes()
	if x.bytes > maxXABytes {
		return &UnsupportedError{What: "prepared XA transactions of more than 256 MiB"}
	}
	x.changes = append(x.changes, changes)
	return nil
}

// take removes a prepared transaction.
func (x *xaTransactions) take(name string) (changes []rowChanges, known bool) {
	changes, known = x.prepared[name]
	delete(x.prepared, name)
	for _, c := range changes {
		x.bytes -= c.bytes()
	}
	return changes, known
}

var xaWords = regexp.MustCompile(`(?is)^XA\s+(START|BEGIN|END|COMMIT|ROLLBACK)\s+(.*?)(\s+ONE\s+PHASE)?\s*$`)

func (r *Replay) xaStatement(ctx context.Context, q query, text string) error {
	words := xaWords.FindStringSubmatch(text)
	if words == nil {
		return &UnsupportedError{What: "a statement of an XA transaction that is not understood"}
	}
	name := words[2]
	switch strings.ToUpper(words[1]) {
	case "START", "BEGIN":
		r.xa.begin()
		r.session = rowSession{q}
	case "END":
		r.xa.name = name
	case "ROLLBACK":
		r.xa.take(name)
	default:
		changes, known := r.xa.take(name)
		if !known {
			return &UnsupportedError{What: "the end of an XA transaction that was prepared before the backup"}
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
	r.endStatement()
	if r.xa.prepared == nil {
		r.xa.prepared = map[string][]rowChanges{}
	}
	r.xa.prepared[r.xa.name] = r.xa.changes
	r.xa.open = false
	if e.body[0] == 0 {
		return nil
	}
	changes, _ := r.xa.take(r.xa.name)
	return r.applyXA(ctx, changes)
}

func (r *Replay) applyXA(ctx context.Context, changes []rowChanges) error {
	for _, c := range changes {
		if err := r.apply(ctx, c); err != nil {
			return err
		}
	}
	return r.commit(ctx)
}

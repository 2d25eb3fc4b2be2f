package transfer

import (
	"context"
	"database/sql"
)

// Known is what a gentle copy has found out about the target: the checksums of its chunks. The next copy to the same
// target compares them with the source's, so that the target need not read its rows again. Nobody else may write to the
// target in between. The zero value knows nothing.
type Known struct {
	server serverProcess
	tables map[string]*knownTable
}

// serverProcess tells a server from another one, and from itself after a restart, which may have lost commits if the
// server does not sync each.
type serverProcess struct {
	name    string
	started int64 // by the server's clock, rounded to seconds
}

// recognize forgets everything if another process serves the target, and at the beginning of a gentle copy.
func (o Options) recognize(ctx context.Context, conn *sql.Conn) error {
	known := o.Known
	if known == nil {
		return nil
	}
	var now, uptime int64
	var p serverProcess
	if err := conn.QueryRowContext(ctx, "SELECT CONCAT_WS(' ', @@hostname, @@port, @@server_id), UNIX_TIMESTAMP()").
		Scan(&p.name, &now); err != nil {
		return err
	}
	if err := conn.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'").Scan(new(string), &uptime); err != nil {
		return err
	}
	p.started = now - uptime
	switch {
	case o.Gentle:
		known.tables = map[string]*knownTable{}
	case p.name != known.server.name, max(p.started-known.server.started, known.server.started-p.started) > 2:
		known.tables = nil
	}
	known.server = p
	return nil
}

type knownTable struct {
	create, keyIndex string
	chunks           []knownChunk // in the order of their keys
}

type knownChunk struct {
	from, to string
	sum      rowSum
	merged   int // chunks of a gentle copy
}

// learn records the checksum of a chunk that is the same on both sides, as the servers print it, in a gentle copy. That
// has one worker, so that chunks come in the order of their keys.
func (o Options) learn(c chunk, text string) error {
	k := o.Known
	if k == nil || !o.Gentle {
		return nil
	}
	sum, err := parseSum(text)
	if err != nil {
		return err
	}
	if c.first {
		k.tables[c.table.Name] = &knownTable{create: c.table.Create, keyIndex: c.table.keyIndex}
	}
	t := k.tables[c.table.Name]
	if last := len(t.chunks) - 1; last >= 0 && t.chunks[last].merged < gentleParts {
		l := &t.chunks[last]
		l.to, l.merged, l.sum.rows, l.sum.sum = c.to, l.merged+1, l.sum.rows+sum.rows, l.sum.sum+sum.sum
		return nil
	}
	t.chunks = append(t.chunks, knownChunk{from: c.from, to: c.to, sum: sum, merged: 1})
	return nil
}

// chunks returns the chunks of a table that are known from one end of the key to the other, or nil.
func (k *Known) chunks(t *table) (all []chunk) {
	known := k.tables[t.Name]
	if known == nil || !sameDefinition(known.create, t.Create) || known.keyIndex != t.keyIndex ||
		known.chunks[len(known.chunks)-1].to != "" {
		return nil
	}
	for n, c := range known.chunks {
		all = append(all, chunk{table: t, from: c.from, to: c.to, first: n == 0, known: c.sum.String()})
	}
	return all
}

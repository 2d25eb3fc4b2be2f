package transfer

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrDiffers says that a dump does not have the rows that it says it has.
var ErrDiffers = errors.New("the rows that were written are not those of the dump")

// Load makes the target what a dump has. It compares every chunk with the sums in the dump. Called again after an
// interruption, it compares first, and writes what differs. An error of Part.Read is a SourceError.
func Load(ctx context.Context, s Schema, parts []Part, to Target, o Options) error {
	o = o.complete()
	if err := s.check(o); err != nil {
		return err
	}
	return newBuilder(s, to, o).build(ctx, &snapshot{tables: s.Tables}, func(ctx context.Context, c *copier) error {
		return c.loadRows(ctx, parts)
	})
}

func (c *copier) loadRows(ctx context.Context, parts []Part) error {
	c.progress.total = uint64(len(parts))
	waiting := queue(parts)
	return atOnce(ctx, c.options.Workers, func(ctx context.Context, _ int) error { return c.loadParts(ctx, waiting) })
}

func (c *copier) loadParts(ctx context.Context, parts <-chan Part) error {
	conn, err := c.connect(ctx)
	if err != nil {
		return err
	}
	defer discard(conn)
	for p := range parts {
		if err := c.loadPart(ctx, conn, p); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		c.advance(1)
	}
	return nil
}

// loadPart makes the chunks of a part equal to those of the dump.
func (c *copier) loadPart(ctx context.Context, conn *sql.Conn, p Part) error {
	l := partLoader{copier: c, conn: conn, part: p, chunks: make([]chunk, len(p.Chunks)), there: map[string]bool{}}
	for n, d := range p.Chunks {
		t := find(c.snapshot.tables, d.Table)
		if t == nil {
			return ofSource(fmt.Errorf("the dump has rows of the table %q, and no such table", d.Table))
		}
		l.chunks[n] = chunk{table: t, from: d.From, to: d.To}
		l.there[d.Table] = c.kept[d.Table]
	}
	var failure error
	for range transferAttempts {
		if err := l.compare(ctx); err != nil || len(l.differing) == 0 {
			return err
		}
		failure = l.write(ctx)
		if l.again(failure) {
			continue
		}
		if failure != nil && l.open >= 0 {
			return l.chunks[l.open].table.duplicates(failure)
		}
		if failure != nil {
			return failure
		}
	}
	if failure != nil {
		return failure
	}
	return l.differs()
}

// partLoader writes the chunks of a part.
type partLoader struct {
	*copier
	conn      *sql.Conn
	part      Part
	chunks    []chunk
	there     map[string]bool // tables that may have rows of these chunks
	differing map[int]bool
	open      int // the chunk of the transaction in progress, -1 for none
}

// again reports whether the part is to be written once more: see chunk.again.
func (l *partLoader) again(failure error) (again bool) {
	for n := range l.chunks {
		k := &l.chunks[n]
		again = k.again(failure, l.kept[k.table.Name]) || again
	}
	return again
}

func (l *partLoader) replaces() bool {
	return slices.ContainsFunc(l.chunks, func(k chunk) bool { return k.replaces })
}

// differs is ErrDiffers, and says which tables differ.
func (l *partLoader) differs() error {
	var tables []string
	for n, k := range l.chunks {
		if refusal := k.dependsOnSession(); l.differing[n] && refusal != nil {
			return refusal
		}
		if l.differing[n] && !slices.Contains(tables, k.table.Name) {
			tables = append(tables, k.table.Name)
		}
	}
	return fmt.Errorf("%w: table %s", ErrDiffers, strings.Join(tables, ", table "))
}

// compare finds the chunks that differ from the dump.
func (l *partLoader) compare(ctx context.Context) error {
	l.differing = map[int]bool{}
	for n, k := range l.chunks {
		if !l.there[k.table.Name] {
			l.differing[n] = true
			continue
		}
		sum, err := sumOf(ctx, l.conn, l.inTarget(k))
		if err != nil {
			return err
		}
		if sum != l.part.Chunks[n].Sum {
			l.differing[n] = true
		}
	}
	return nil
}

// write writes the chunks that differ, each in one transaction.
func (l *partLoader) write(ctx context.Context) (err error) {
	l.open = -1
	defer l.takeTurn(l.replaces())()
	defer func() {
		if err != nil && l.open >= 0 && ctx.Err() == nil {
			err = errors.Join(err, rollBack(ctx, l.conn))
		}
	}()
	begun := map[int]bool{}
	var failure error
	reading := l.part.Read(ctx, func(n int, statement []byte) error {
		if n < 0 || n >= len(l.chunks) {
			return fmt.Errorf("the dump has rows of chunk %d of %d", n, len(l.chunks))
		}
		if !l.differing[n] {
			return nil
		}
		if l.open != n {
			if failure = l.begin(ctx, n); failure != nil {
				return failure
			}
			begun[n] = true
		}
		failure = l.copier.write(ctx, l.conn, l.chunks[n], statement)
		return failure
	})
	if failure != nil {
		return failure
	}
	if reading != nil {
		return ofSource(reading)
	}
	for n := range l.chunks { // in which there must be no rows
		if l.differing[n] && !begun[n] {
			if err := l.begin(ctx, n); err != nil {
				return err
			}
		}
	}
	return l.end(ctx)
}

// begin begins the transaction of a chunk, and ends the one before.
func (l *partLoader) begin(ctx context.Context, n int) error {
	if err := l.end(ctx); err != nil {
		return err
	}
	l.open = n
	return l.copier.begin(ctx, l.conn, l.chunks[n], l.there[l.chunks[n].table.Name])
}

func (l *partLoader) end(ctx context.Context) error {
	if l.open < 0 {
		return nil
	}
	if err := l.exec(ctx, l.conn, "COMMIT"); err != nil {
		return err
	}
	l.there[l.chunks[l.open].table.Name], l.open = true, -1
	return nil
}
